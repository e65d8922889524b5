"""A server that is killed while somebody speaks into the page, which goes on at another one."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsers import RATE, chromium, saved
from gateways import Gateway, serving_gateway
from joined_text import assert_joined, words_of
from killing import kill_server
from metrics import metrics_of
from playwright.sync_api import Page
from recordings import Recording
from router import free_ports, routing

from conch.client import Client
from conch.deploy.haproxy import BackendServer
from conch.wire.result import Transcript

pytestmark = [pytest.mark.server, pytest.mark.nightly, pytest.mark.timeout(400)]

LONG_MS = 60_000
"""Milliseconds for the page: it shares its cores with two servers."""
LEAST_LEFT = 10
"""Words that are still to be spoken when the server is killed, at least."""

WATCH = """() => {
    window.statuses = [];
    const status = document.querySelector("#live-panel .status");
    new MutationObserver(() => window.statuses.push(status.textContent))
        .observe(status, { subtree: true, childList: true, characterData: true });
}"""
IS_IN_SECOND_UTTERANCE = """() => {
    const open = document.querySelector(".utterances li.is-open");
    const firm = open?.querySelector(".firm").textContent.trim().split(" ") ?? [];
    return open?.previousElementSibling && firm.length >= 4;
}"""
HAS_HEARD = """(seconds) => {
    const timer = document.querySelector("#live-panel .figure").textContent;
    const [minutes, rest] = timer.split(":").map(Number);
    return 60 * minutes + rest >= seconds;
}"""


@pytest.fixture(params=["streaming", "two_pass"])
def servers(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[list[Gateway]]:
    """Yield two servers for live text, without a second pass and with one."""
    # Keys of whoever runs the tests would lock them.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("CONCH_API_KEYS", raising=False)
    with ExitStack() as stack:
        yield [stack.enter_context(serving_gateway("--models", request.param)) for _ in range(2)]


@pytest.fixture
def spoken(recordings: list[Recording]) -> np.ndarray:
    """Return what the microphone hears: two utterances, the second one long.

    These recordings have the same text wherever the steps of a server begin in them, so that what
    differs in the end comes from the cut.
    """
    silence = np.zeros(RATE, np.float32)
    first, *second = (recordings[number].waveform() for number in (4, 1, 3))
    return np.concatenate([silence, first, silence, silence, *second, silence])


@contextmanager
def opened(url: str, heard: np.ndarray) -> Iterator[Page]:
    """Yield the page in a browser whose microphone hears a recording once.

    In the end, fail if something went wrong in the page's own code.
    """
    faults: list[str] = []
    with (
        chromium(heard) as browser,
        browser.new_context(viewport={"width": 1280, "height": 800}) as context,
    ):
        context.grant_permissions(["microphone"], origin=url)
        context.on("weberror", lambda error: faults.append(str(error.error)))
        page = context.new_page()
        page.goto(url)
        page.locator("#form-a form").wait_for(state="attached")
        yield page
    assert faults == []


def server_of(gateway: Gateway) -> BackendServer:
    """Return what HAProxy knows of a server."""
    ports = [int(url.rpartition(":")[2]) for url in (gateway.grpc_url, gateway.url)]
    # Nobody asks for Triton's HTTP here.
    return BackendServer("127.0.0.1", *free_ports(1), *ports)


def has_stream(gateway: Gateway) -> bool:
    return metrics_of(gateway.metrics_url).get("conch_open_streams", 0.0) > 0


def transcript_at_once(gateway: Gateway, samples: np.ndarray) -> Transcript:
    """Return what a live stream tells that loses nothing."""
    with Client(gateway.grpc_url) as client, client.live(word_timestamps=True) as stream:
        stream.send(samples)
        return stream.finish()


def wait_for_status(page: Page, text: str) -> None:
    page.locator("#live-panel .status", has_text=text).wait_for(timeout=LONG_MS)


def firm_lines(page: Page) -> list[str]:
    return page.locator(".utterances .firm").all_inner_texts()


def test_the_page_goes_on_at_another_server(servers, spoken, tmp_path):
    whole = transcript_at_once(servers[0], spoken)
    with (
        routing(tmp_path, [server_of(one) for one in servers]) as router,
        opened(router.gateway_url, spoken) as page,
    ):
        page.evaluate(WATCH)
        page.locator("#speak").click()
        page.wait_for_function(IS_IN_SECOND_UTTERANCE, timeout=LONG_MS)
        (killed,) = [one for one in servers if has_stream(one)]
        (other,) = [one for one in servers if one is not killed]
        before = firm_lines(page)
        kill_server(killed)
        wait_for_status(page, "Listening. The connection was lost, and the text goes on.")
        assert has_stream(other)
        page.wait_for_function(HAS_HEARD, arg=len(spoken) / RATE, timeout=LONG_MS)
        page.locator("#speak").click()
        wait_for_status(page, "Ended.")
        # It would tell of audio that was left out.
        statuses = page.evaluate("window.statuses")
        assert statuses[-1] == "Ended."
        assert [text for text in statuses if text.startswith("The connection is lost")]
        lines, result = firm_lines(page), json.loads(saved(page.locator("#live-panel"), "json"))
    assert len(words_of(" ".join(before))) < len(words_of(whole.text)) - LEAST_LEFT
    assert_joined(" ".join(lines), whole.text, most_changed=1)
    assert lines[0] == before[0]
    assert lines[1].startswith(before[1]), "firm text stays"
    assert result["text"] == " ".join(lines)
    assert_times_go_on(result["segments"], whole)


def assert_times_go_on(segments: list[Any], whole: Transcript) -> None:
    """Check that no time is lost or doubled between two servers."""
    assert all(one["end"] <= other["start"] for one, other in pairwise(segments))
    words = [word for segment in segments for word in segment["words"]]
    expected = [word for segment in whole.segments for word in segment.words]
    # The microphone begins a little after the page's clock, or before it.
    shift_s = words[0]["start"] - expected[0].start
    assert abs(words[-1]["end"] - expected[-1].end - shift_s) < 0.5
