"""docs/guide/realtime.md: its tables are those of the code, and its programs run."""

import json
import re
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import soundfile
from browsers import RATE, chromium
from playwright.sync_api import Route
from recordings import Recording, wer
from subprocesses import output_of

from conch.gateway.doors import REALTIME
from conch.gateway.errors import ApiError
from conch.gateway.realtime import config, events
from conch.wire.result import TurnEvent

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "guide" / "realtime.md").read_text(encoding="utf-8")


def program_in(language: str) -> str:
    """Return the one program that the page has in a language."""
    (program,) = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.M | re.S)
    return str(program)


def cells(pattern: str) -> list[tuple[str, ...]]:
    return re.findall(pattern, TEXT, re.M)


def test_every_delay_has_its_row() -> None:
    rows = cells(r"^\| `(\w+)`(?:, or none)? \| (\d+) ms \| (\d+) ms \|$")
    delays = {name: config.Delay(int(every), int(pause)) for name, every, pause in rows}
    assert delays == dict(config.DELAYS)


def test_every_event_is_named() -> None:
    error = ApiError(400, "")
    sent_events = [
        events.event("session.created", session={}),
        events.event("session.updated", session={}),
        events.speech_started("", 0),
        events.speech_stopped("", 0),
        *events.committed("", None, is_beta=False),
        events.cleared(),
        events.delta("", ""),
        events.completed("", "", 0, ()),
        events.failed("", error),
        events.error_event(error),
        events.partial("", "", "", "", ""),
        events.turn("", TurnEvent("eager_end", 0, 0, 0.5)),
        events.turn("", TurnEvent("resumed", 0, 0)),
    ]
    names = {event["type"] for event in sent_events}
    assert {name for name in names if f"`{name}`" not in TEXT} == set()
    for name in (events.APPEND, events.COMMIT, events.CLEAR):
        assert f"`{name}`" in TEXT


def test_eagerness_and_sizes_are_told() -> None:
    order = ("low", "medium", "high", "auto")
    assert set(order) == set(config.EAGERNESS_MS)
    names = ", ".join(f"`{name}`" for name in order)
    pauses = ", ".join(str(config.EAGERNESS_MS[name]) for name in order)
    assert f"| {names} | pauses of {pauses} ms" in TEXT
    assert f"at most {events.MAX_AUDIO_BYTES >> 20} MiB" in TEXT
    assert f"more than {REALTIME.max_message_bytes >> 20} MiB" in TEXT


@pytest.mark.server
@pytest.mark.nightly
def test_the_program_runs(gateway_url: str, talk: Recording, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "talk.wav", talk.waveform(), RATE)
    here = program_in("python").replace("http://127.0.0.1:9000", gateway_url)
    said = output_of(sys.executable, "-c", here, cwd=tmp_path)
    deltas, _, final = said.partition("final:")
    assert wer(talk.text, final) < 0.2
    assert wer(final, deltas) < 0.2


@pytest.mark.server
def test_the_page_runs(gateway_url: str, speech: Recording) -> None:
    silence = np.zeros(RATE, np.float32)
    program = program_in("javascript")
    program = program.replace("wss://speech.example.org", gateway_url.replace("http", "ws"))

    def give_secret(route: Route) -> None:
        """Answer as the page's own server does."""
        secrets = f"{gateway_url}/v1/realtime/client_secrets"
        with urllib.request.urlopen(secrets, data=b"{}") as answer:
            route.fulfill(json={"value": json.load(answer)["value"]})

    with chromium(np.concatenate([silence, speech.waveform(), silence, silence])) as browser:
        # The gateway's own page loads nothing from anywhere, not even from itself as a blob.
        page = browser.new_context(bypass_csp=True).new_page()
        page.route("**/secret", give_secret)
        page.goto(gateway_url)
        page.evaluate("document.body.replaceChildren()")
        page.evaluate(f"(async () => {{ {program} }})()")
        page.wait_for_function("document.body.textContent.trim().length > 20", timeout=60_000)
        text = page.evaluate("document.body.textContent")
    assert wer(speech.text, text) < 0.2
