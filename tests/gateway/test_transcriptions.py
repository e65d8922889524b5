"""A streamed answer to a file: when its headers leave, and how its errors are told."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import aiohttp
import pytest
from loop_gateway import loop_gateway
from plain_gateway import SAID
from transcripts import spoken

from conch.client.poison import Losses
from conch.client.tensors import Request
from conch.gateway.config import Times
from conch.wire.errors import ComponentError, ConchError, OptionError, ServerError
from conch.wire.result import Transcript

NO_FIELDS: Mapping[str, str] = MappingProxyType({})


class HeldServer:
    """A server whose first part, or error, comes when it is let go."""

    models: tuple[str, ...] = ()

    def __init__(self, error: ConchError | None = None, *, is_held: bool = True) -> None:
        self.error = error
        self.said = SAID
        self.let_go = asyncio.Event()
        self.losses = Losses()
        if not is_held:
            self.let_go.set()

    async def answer(self, ask: Callable[[Any], Awaitable[Any]], name: str = "") -> Any:
        try:
            return await ask(self)
        except ServerError:  # it was lost, and is back
            self.error = None
            return await ask(self)

    async def infer_parts(self, request: Request) -> AsyncIterator[Transcript]:
        await self.let_go.wait()
        if self.error is not None:
            raise self.error
        yield self.said


@asynccontextmanager
async def posted(
    server: HeldServer, fields: Mapping[str, str] = NO_FIELDS, **settings: Any
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Post a file to a gateway in front of a server, and yield the answer."""
    form = aiohttp.FormData({"model": "conch", "stream": "true", **fields})
    form.add_field("file", b"any audio", filename="a.wav")
    async with loop_gateway(**settings) as gateway, aiohttp.ClientSession() as session:
        gateway.gateway.servers = server  # type: ignore[assignment]
        async with session.post(f"{gateway.url}/v1/audio/transcriptions", data=form) as answer:
            yield answer


async def events_of(answer: aiohttp.ClientResponse) -> list[dict[str, Any]]:
    lines = (await answer.read()).splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]


@pytest.fixture
def headers_leave_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conch.gateway.transcriptions.HEADERS_S", 0.1)


@pytest.mark.usefixtures("headers_leave_soon")
async def test_the_headers_leave_before_the_first_segment_is_known() -> None:
    server = HeldServer()
    async with posted(server) as answer:
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        server.let_go.set()
        *_, last = await events_of(answer)
        assert last == {"type": "transcript.text.done", "text": ""}


@pytest.mark.usefixtures("headers_leave_soon")
async def test_lines_keep_the_connection_open_before_the_first_segment() -> None:
    server = HeldServer()
    async with posted(server, times=Times(comment_s=0.1)) as answer:
        lines = [await answer.content.readline() for _ in range(5)]
        assert [line for line in lines if line.strip()] == [b": still at work\n"] * 3
        server.let_go.set()


async def test_an_error_that_is_known_at_once_has_its_status() -> None:
    server = HeldServer(OptionError("option 'beam_size' takes 1 to 16"), is_held=False)
    async with posted(server) as answer:
        assert (answer.status, answer.content_type) == (400, "application/json")
        assert (await answer.json())["error"]["param"] == "beam_size"


@pytest.mark.usefixtures("headers_leave_soon")
async def test_an_error_after_the_headers_is_an_event() -> None:
    server = HeldServer(ComponentError("vad: out of order"))
    async with posted(server) as answer:
        assert answer.status == 200
        server.let_go.set()
        (event,) = await events_of(answer)
        assert event["error"]["code"] == "component_failed"
        assert "out of order" in event["error"]["message"]


@pytest.mark.usefixtures("headers_leave_soon")
async def test_another_server_may_answer_after_the_headers() -> None:
    server = HeldServer(ServerError("lost"))
    async with posted(server) as answer:
        server.let_go.set()
        assert [event["type"] for event in await events_of(answer)] == ["transcript.text.done"]


async def test_names_of_speakers_are_in_every_event() -> None:
    server = HeldServer(is_held=False)
    server.said = replace(SAID, segments=(replace(spoken("Yes."), speaker="A"),))
    fields = {"response_format": "conch", "speaker_names": "A=Ann,B=Ben"}
    async with posted(server, fields) as answer:
        part, done = (event["transcript"] for event in await events_of(answer))
    assert [item["segments"][0]["speaker"] for item in (part, done)] == ["Ann", "Ann"]
    (warning,) = done["warnings"]
    assert "'speaker_names' names the speaker B" in warning
    assert not part["warnings"]
    async with posted(server, {**fields, "response_format": "diarized_json"}) as answer:
        said = {event["type"]: event for event in await events_of(answer)}
    assert said["transcript.text.segment"]["speaker"] == "Ann"
