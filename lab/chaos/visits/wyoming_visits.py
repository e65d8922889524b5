"""Visits by the Wyoming protocol."""

from contextlib import suppress
from typing import Any

from wyoming.client import AsyncTcpClient
from wyoming.event import Event

from conch.gateway.doors import Door
from lab.chaos.answers import LOST, Answer, status_of
from lab.chaos.speech import RATE
from lab.chaos.visits.sent import Sent


async def listen_visit(address: str, door: Door, sent: Sent) -> Answer:
    """Send a command, and hear its text."""
    form = {"rate": RATE, "width": 2, "channels": 1, **sent.options}
    events = [Event("transcribe", dict(sent.options)), Event("audio-start", form)]
    for part in sent.parts:
        if isinstance(part, bytes):
            events.append(Event("audio-chunk", form, part))
        else:
            events.append(Event("audio-chunk", {**form, "rate": part}, b"\0\0"))
    return await _visit(address, events, Event("audio-stop") if sent.ends else None, "transcript")


async def speak_visit(address: str, door: Door, sent: Sent) -> Answer:
    """Send a text in pieces, and hear its audio."""
    events = [Event("synthesize-start", dict(sent.options))]
    events += [Event("synthesize-chunk", {"text": part}) for part in sent.parts]
    last = Event("synthesize-stop") if sent.ends else None
    return await _visit(address, events, last, "synthesize-stopped")


async def _visit(address: str, events: list[Event], last: Event | None, ends_with: str) -> Answer:
    host, _, port = address.rpartition(":")
    found = Answer(LOST, is_gateway=True)
    said = ""
    async with AsyncTcpClient(host, int(port)) as client:
        with suppress(ConnectionError):  # the gateway has ended it; its answer comes below
            for event in [*events, *([last] if last else [])]:
                await client.write_event(event)
        with suppress(ConnectionError):
            while (event := await client.read_event()) is not None:
                if event.type == "error":
                    return _error(event.data)
                if event.type == "audio-chunk":
                    said = "audio"
                if event.type == ends_with:
                    return Answer("OK", is_gateway=True, said=event.data.get("text", said))
    return found


def _error(data: dict[str, Any]) -> Answer:
    code = str(data.get("code"))
    # It has no status, and no type.
    is_fault = code in ("server_error", "component_failed")
    return Answer(status_of(code, is_fault=is_fault), str(data["text"]), is_gateway=True)
