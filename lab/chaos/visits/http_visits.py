"""Visits over HTTP: forms with files, and JSON."""

import json
from collections.abc import Mapping
from typing import Any

import aiohttp

from conch.gateway.doors import Door
from lab.chaos.answers import Answer, error_in
from lab.chaos.visits.sent import Sent


async def voice_visit(address: str, door: Door, sent: Sent) -> Answer:
    return await file_visit(address, door, sent, "audio_sample")


async def file_visit(address: str, door: Door, sent: Sent, field: str = "file") -> Answer:
    form = aiohttp.FormData()
    for name, value in sent.options.items():
        form.add_field(name, as_text(value))
    form.add_field(field, _file(sent), filename="speech.wav", content_type="audio/wav")
    return await _answer(address, door, sent, form)


async def text_visit(address: str, door: Door, sent: Sent) -> Answer:
    body = {"input": _text(sent), "response_format": "pcm", **sent.options}
    return await _json(address, door, sent, body)


async def deepgram_file_visit(address: str, door: Door, sent: Sent) -> Answer:
    return await _answer(address, door, sent, _file(sent), "audio/wav", sent.options)


async def deepgram_text_visit(address: str, door: Door, sent: Sent) -> Answer:
    body = json.dumps({"text": _text(sent)})
    return await _answer(address, door, sent, body, "application/json", sent.options)


async def transcript_visit(address: str, door: Door, sent: Sent) -> Answer:
    return await _json(address, door, sent, {**_field("transcript", sent), "format": "text"})


async def secret_visit(address: str, door: Door, sent: Sent) -> Answer:
    return await _json(address, door, sent, _field("session", sent))


async def session_visit(address: str, door: Door, sent: Sent) -> Answer:
    body = sent.parts[0] if sent.parts else {}
    return await _json(address, door, sent, {**body, **sent.options} if body == {} else body)


def _file(sent: Sent) -> bytes:
    parts = (part if isinstance(part, bytes) else as_text(part).encode() for part in sent.parts)
    return b"".join(parts)


def _text(sent: Sent) -> Any:
    is_text = all(isinstance(part, str) for part in sent.parts)
    return "".join(sent.parts) if is_text else sent.parts[0]


def _field(name: str, sent: Sent) -> dict[str, Any]:
    return {**(dict(zip([name], sent.parts, strict=False))), **sent.options}


async def _json(address: str, door: Door, sent: Sent, body: Any) -> Answer:
    return await _answer(address, door, sent, json.dumps(body), "application/json")


async def _answer(
    address: str,
    door: Door,
    sent: Sent,
    body: Any,
    content_type: str | None = None,
    query: Mapping[str, Any] | None = None,
) -> Answer:
    headers = {"Content-Type": content_type, "X-Request-Id": sent.request_id or None}
    sent_headers = {name: value for name, value in headers.items() if value}
    url = f"http://{address}{door.address}"
    queried = {name: as_text(value) for name, value in (query or {}).items()}
    async with (
        aiohttp.ClientSession(headers=sent_headers) as session,
        session.post(url, data=body, params=queried) as answer,
    ):
        data = await answer.read()
    if answer.status >= 400:
        return Answer(str(answer.status), error_in(data), is_gateway=True)
    return Answer(str(answer.status), is_gateway=True, said=_said(answer, data))


def _said(answer: aiohttp.ClientResponse, data: bytes) -> str:
    if answer.content_type.startswith("audio/"):
        return "audio" if data else ""
    if answer.content_type != "application/json":
        return data.decode()
    document = json.loads(data)
    if "results" in document:
        return str(document["results"]["channels"][0]["alternatives"][0]["transcript"])
    # A client secret is another one each time.
    return str(document.get("text", sorted(document)))


def as_text(value: Any) -> str:
    """Return a value of JSON as forms, queries and maps of texts have it."""
    return value if isinstance(value, str) else json.dumps(value)
