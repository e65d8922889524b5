"""docs/guide/realtime.md: its tables are those of the code."""

import re
from pathlib import Path

from conch.gateway.doors import REALTIME
from conch.gateway.errors import ApiError
from conch.gateway.realtime import config, events
from conch.wire.result import TurnEvent

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "guide" / "realtime.md").read_text(encoding="utf-8")


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
