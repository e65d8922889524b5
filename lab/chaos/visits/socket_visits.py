"""Visits over WebSockets: Conch's own dialect, OpenAI's and Deepgram's."""

import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import aiohttp

from conch.gateway.doors import Door
from lab.chaos.answers import LOST, Answer, error_in, status_of
from lab.chaos.speech import RATE
from lab.chaos.visits.http_visits import as_text
from lab.chaos.visits.sent import Sent


async def listen_visit(address: str, door: Door, sent: Sent) -> Answer:
    query = {"encoding": "pcm16", **sent.options}
    return await _visit(address, door, sent, query, _audio(sent), "close")


async def speak_visit(address: str, door: Door, sent: Sent) -> Answer:
    frames = [json.dumps({"type": "text", "text": part}) for part in sent.parts]
    return await _visit(address, door, sent, sent.options, frames, "close")


async def deepgram_listen_visit(address: str, door: Door, sent: Sent) -> Answer:
    query = {"encoding": "linear16", "sample_rate": RATE, **sent.options}
    return await _visit(address, door, sent, query, _audio(sent), "CloseStream")


async def deepgram_speak_visit(address: str, door: Door, sent: Sent) -> Answer:
    frames = [json.dumps({"type": "Speak", "text": part}) for part in sent.parts]
    return await _visit(address, door, sent, sent.options, frames, "Close")


async def realtime_visit(address: str, door: Door, sent: Sent) -> Answer:
    """Hold a session of OpenAI's dialect, whose client commits its only turn."""
    inputs = {"format": {"type": "audio/pcm", "rate": RATE}, "turn_detection": None}
    session = {"type": "transcription", "audio": {"input": inputs}, "conch": sent.options}
    events: list[dict[str, Any]] = [{"type": "session.update", "session": session}]
    for part in sent.parts:
        audio = base64.b64encode(part).decode() if isinstance(part, bytes) else part
        events.append({"type": "input_audio_buffer.append", "audio": audio})
    if sent.ends:
        events.append({"type": "input_audio_buffer.commit"})
    answer = Answer(LOST, is_gateway=True)
    async with _socket(address, door, sent, {"intent": "transcription"}) as socket:
        if isinstance(socket, Answer):
            return socket
        await _send(
            socket, [json.dumps({**event, "event_id": sent.request_id or "e"}) for event in events]
        )
        async for frame in socket:
            event = json.loads(frame.data)
            if event["type"] == "error":
                answer = _error(event["error"])
            elif event["type"].endswith("transcription.completed"):
                answer = Answer("1000", is_gateway=True, said=event["transcript"])
            else:
                continue
            break
        else:
            return _closed(socket)
    return answer


def _audio(sent: Sent) -> list[str | bytes]:
    return [part if isinstance(part, bytes) else json.dumps({"type": part}) for part in sent.parts]


async def _visit(
    address: str,
    door: Door,
    sent: Sent,
    query: Mapping[str, Any],
    frames: Sequence[str | bytes],
    end: str,
) -> Answer:
    """Send frames and the message that ends a session, and hear all that comes, in any dialect."""
    error, said = None, list[str]()
    async with _socket(address, door, sent, query) as socket:
        if isinstance(socket, Answer):
            return socket
        await _send(socket, [*frames, *([json.dumps({"type": end})] if sent.ends else [])])
        async for frame in socket:
            if isinstance(frame.data, bytes):
                said = ["audio"]
                continue
            match json.loads(frame.data):
                case {"type": "error", "error": problem}:
                    error = _error(problem)
                case {"type": "Error", "variant": variant, "description": text}:
                    is_fault = variant in ("SERVER_ERROR", "COMPONENT_FAILED")
                    status = status_of(variant.lower(), is_fault=is_fault)
                    error = Answer(status, text, is_gateway=True)
                case {"type": "end", "text": text}:
                    said = [text]
                case {"channel": {"alternatives": [{"transcript": text}, *_]}}:
                    said.append(text)
                case {"event": "EndOfTurn", "transcript": text}:
                    said.append(text)
        closed = _closed(socket)
    return error or replace(closed, said=" ".join(said))


@asynccontextmanager
async def _socket(
    address: str, door: Door, sent: Sent, query: Mapping[str, Any]
) -> AsyncIterator[aiohttp.ClientWebSocketResponse | Answer]:
    """Yield a WebSocket, or why there is none."""
    pairs = "&".join(f"{quote(name)}={quote(as_text(value))}" for name, value in query.items())
    url = f"http://{address}{door.address}?{pairs}"
    headers = {"X-Request-Id": sent.request_id} if sent.request_id else {}
    async with aiohttp.ClientSession(headers=headers) as session:
        try:
            async with session.ws_connect(url) as socket:
                yield socket
        except aiohttp.WSServerHandshakeError as error:
            # As a browser, which is told no more than the status.
            async with session.get(url) as answer:
                yield Answer(str(error.status), error_in(await answer.read()), is_gateway=True)


async def _send(socket: aiohttp.ClientWebSocketResponse, frames: Sequence[str | bytes]) -> None:
    with suppress(ConnectionError):  # the gateway has ended it; its answer comes below
        for frame in frames:
            await (socket.send_bytes(frame) if isinstance(frame, bytes) else socket.send_str(frame))


def _error(error: Mapping[str, Any]) -> Answer:
    status = status_of(str(error["code"]), is_fault=error["type"] == "server_error")
    return Answer(status, str(error["message"]), is_gateway=True)


def _closed(socket: aiohttp.ClientWebSocketResponse) -> Answer:
    code = socket.close_code
    return Answer(LOST if code in (None, 1006) else str(code), is_gateway=True)
