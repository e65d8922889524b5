"""Visits by the Wyoming protocol."""

import asyncio
import json
from contextlib import suppress
from typing import Any

from wyoming.event import Event, async_read_event

from conch.gateway.doors import Door
from lab.chaos.answers import LOST, Answer, status_of
from lab.chaos.speech import RATE
from lab.chaos.visits.sent import Sent


async def listen_visit(address: str, door: Door, sent: Sent) -> Answer:
    form = {"rate": RATE, "width": 2, "channels": 1, **sent.options}
    events = [Event("transcribe", dict(sent.options)), Event("audio-start", form)]
    for part in sent.parts:
        if isinstance(part, bytes):
            events.append(Event("audio-chunk", form, part))
        else:
            events.append(Event("audio-chunk", {**form, "rate": part}, b"\0\0"))
    return await _visit(address, events, Event("audio-stop") if sent.ends else None)


async def speak_visit(address: str, door: Door, sent: Sent) -> Answer:
    events = [Event("synthesize-start", dict(sent.options))]
    events += [Event("synthesize-chunk", {"text": part}) for part in sent.parts]
    return await _visit(address, events, Event("synthesize-stop") if sent.ends else None)


async def _visit(address: str, events: list[Event], last: Event | None) -> Answer:
    host, _, port = address.rpartition(":")
    said = ""
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        with suppress(ConnectionError):  # the gateway has ended it; its answer comes below
            # An error may come behind an end; the answer to a ping is behind both.
            for event in [*events, *([last, Event("ping")] if last else [])]:
                writer.write(_bytes_of(event))
                await writer.drain()
        while (received := await async_read_event(reader)) is not None:
            if received.type == "error":
                return _error(received.data)
            if received.type == "audio-chunk":
                said = "audio"
            elif received.type == "transcript":
                said = received.data["text"]
            elif received.type == "pong":
                return Answer("OK", is_gateway=True, said=said)
    finally:
        writer.close()
    return Answer(LOST, is_gateway=True)


def _bytes_of(event: Event) -> bytes:
    """Return an event on the line, where the package itself would refuse some texts."""
    payload = event.payload or b""
    head = {"type": event.type, "data": event.data, "payload_length": len(payload)}
    return json.dumps(head).encode() + b"\n" + payload


def _error(data: dict[str, Any]) -> Answer:
    code = str(data.get("code"))
    # It has no status, and no type.
    is_fault = code in ("server_error", "component_failed")
    return Answer(status_of(code, is_fault=is_fault), str(data["text"]), is_gateway=True)
