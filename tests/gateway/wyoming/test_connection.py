"""The Wyoming protocol before a client that reaches no server: time, ends, wrong types."""

import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from loop_gateway import LoopGateway, loop_gateway, until
from plain_live import RATE, PlainLiveClient, spoken
from wyoming.asr import Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.ping import Ping
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop
from wyoming_events import events_until, next_error

from conch.gateway.config import Times
from conch.gateway.doors import WYOMING_LISTEN
from conch.gateway.wyoming.connection import listening

START = AudioStart(RATE, 2, 1).event()
SPOKEN = {"rate": RATE, "width": 2, "channels": 1}


@asynccontextmanager
async def connected(
    client: PlainLiveClient | None = None, **settings: Any
) -> AsyncIterator[tuple[LoopGateway, AsyncTcpClient]]:
    """Yield a gateway and a connection to it, of which nothing is left behind the block."""
    async with (
        loop_gateway(client, **settings) as running,
        listening(running.gateway, "127.0.0.1", 0) as port,
        AsyncTcpClient("127.0.0.1", port, read_timeout=60) as line,
    ):
        yield running, line
        route = WYOMING_LISTEN.address
        await until(lambda: not running.metric("conch_gateway_sessions", route=route))
        await until(lambda: not running.metric("conch_gateway_texts"))


@pytest.fixture
async def line() -> AsyncIterator[AsyncTcpClient]:
    async with connected() as (_, line):
        yield line


async def send(line: AsyncTcpClient, *numbers: int) -> None:
    for number in numbers:
        await line.write_event(AudioChunk(RATE, 2, 1, spoken(number, 1.0).tobytes()).event())


async def command(line: AsyncTcpClient, *numbers: int) -> None:
    """Send so many seconds of speech from their start to their end."""
    await line.write_event(START)
    await send(line, *numbers)
    await line.write_event(AudioStop().event())


async def text(line: AsyncTcpClient) -> str:
    return str(Transcript.from_event((await events_until(line, "transcript"))[-1]).text)


async def test_a_command_of_any_length_is_heard_at_the_pace_of_the_server() -> None:
    async with connected(PlainLiveClient(latency_s=0.05), max_backlog_s=10.0) as (running, line):
        await command(line, *[1] * 40)
        assert await text(line) == "ONE"
        (audio_s,) = [
            sample.value
            for metric in running.gateway.metrics.audio_seconds.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        ]
        assert audio_s == 40.0


async def test_an_end_without_a_start_has_an_empty_text(line: AsyncTcpClient) -> None:
    await line.write_event(AudioStop().event())
    assert await text(line) == ""
    await command(line, 2)
    assert await text(line) == "TWO"


@pytest.mark.parametrize("kind", ["audio-start", "synthesize-start"])
async def test_who_begins_and_falls_silent_is_answered_and_keeps_nothing(kind: str) -> None:
    async with connected(Speaking(), times=Times(idle_s=0.3)) as (running, line):
        if kind == "audio-start":
            await line.write_event(START)
            await send(line, 1)
            assert await text(line) == "ONE"
        else:
            await line.write_event(SynthesizeStart().event())
        result = await next_error(line)
        assert (result.code, result.text) == ("timeout", "no event has come for 0.3 s; begin again")
        await line.write_event(Ping("there?").event())
        await events_until(line, "pong")
        assert not running.client.open


class Speaking(PlainLiveClient):
    """Speaks nothing of any text."""

    async def synthesize_stream(self, text: Any, **options: Any) -> Any:
        async for _ in text:
            pass
        for _ in ():
            yield


@pytest.mark.parametrize("stops", [True, False])
async def test_a_stop_and_the_longest_command_end_with_the_text(stops: bool) -> None:
    async with connected(max_session_s=86_400.0 if stops else 0.5) as (running, line):
        await line.write_event(START)
        await send(line, 1)
        await until(lambda: bool(running.client.sent))
        if stops:
            running.gateway.draining.set()
        assert await text(line) == "ONE"
        if not stops:
            assert "has lasted 0.5 s" in (await next_error(line)).text
        await send(line, 2)  # thrown away, up to its end
        await line.write_event(AudioStop().event())
        await line.write_event(Ping("there?").event())
        types = [event.type for event in await events_until(line, "pong")]
        assert "transcript" not in types


async def test_an_idle_connection_is_closed() -> None:
    async with connected(times=Times(keep_alive_s=0.3)) as (_, line):
        await command(line, 1)
        assert await text(line) == "ONE"
        while (event := await line.read_event()) is not None:
            assert event.type == "transcript-stop"


async def test_a_reset_is_an_ordinary_end(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        async with connected() as (running, line):
            await line.write_event(START)
            await send(line, 1)
            await until(lambda: bool(running.client.sent))
            assert line._writer is not None
            connection = line._writer.get_extra_info("socket")
            # Without lingering, closing sends a reset.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            line._writer.transport.abort()
            route = WYOMING_LISTEN.address
            await until(lambda: running.metric("conch_gateway_sessions", route=route) == 0)
            await until(lambda: not running.client.open)
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("audio-start", {**SPOKEN, "width": 4.0}, "Expected `int`, got `float` - at `$.width`"),
        ("audio-start", {**SPOKEN, "rate": "16000"}, "Expected `int`, got `str` - at `$.rate`"),
        ("audio-start", {**SPOKEN, "rate": True}, "Expected `int`, got `bool`"),
        ("audio-start", {**SPOKEN, "rate": 10**399}, "rate takes 4000 to 192000 Hz; sent: 1000"),
        ("audio-chunk", {**SPOKEN, "width": []}, "Expected `int`, got `array` - at `$.width`"),
        ("audio-chunk", {**SPOKEN, "channels": 10**399}, "channels takes 1 to 16; sent: 1000"),
        ("audio-chunk", {**SPOKEN, "width": -(10**399)}, "width takes 1, 2 or 4 bytes"),
        ("audio-start", {}, "the event audio-start lacks 'rate'"),
        ("transcribe", {"language": 5}, "Expected `str | null`, got `int` - at `$.language`"),
        ("transcribe", {"name": {}}, "at `$.name`"),
        ("transcribe", {"transcript_names": "Ann"}, "at `$.transcript_names`"),
        ("transcribe", {"transcript_terms": [1]}, "at `$.transcript_terms[0]`"),
        ("synthesize", {"text": 5}, "at `$.text`"),
        ("synthesize", {"text": "a", "voice": "hibari"}, "at `$.voice`"),
        ("synthesize", {"text": "a", "voice": {"name": 3}}, "at `$.voice.name`"),
        ("synthesize-start", {"text_format": 1}, "at `$.text_format`"),
        ("synthesize", {"text": "a", "voice": None}, "at `$.voice`"),
        ("ping", [], "Expected `object`, got `array`"),
        ("ping", {"text": []}, "at `$.text`"),
        ("ping", {"text": "\ud800"}, "surrogates not allowed"),
    ],
)
async def test_a_field_of_a_wrong_type_is_named_and_the_connection_goes_on(
    kind: str, data: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"):
        async with connected() as (_, line):
            payload = spoken(1, 0.1).tobytes() if kind == "audio-chunk" else b""
            assert line._writer is not None
            head = {"type": kind, "data": data, "payload_length": len(payload)}
            line._writer.write(json.dumps(head).encode() + b"\n" + payload)
            result = await next_error(line)
            assert said in result.text
            assert result.code is not None and result.code.startswith("invalid")
            await line.write_event(AudioStop().event())
            await command(line, 1)
            while (reply := await text(line)) != "ONE":
                assert reply == ""  # of the end before
    assert not caplog.records


async def test_a_wrong_chunk_comes_after_the_text_of_those_before(line: AsyncTcpClient) -> None:
    await line.write_event(START)
    await send(line, 1)
    await line.write_event(AudioChunk(8_000, 2, 1, bytes(320)).event())
    assert await text(line) == "ONE"
    assert "rate stays as it was, 16000; sent: 8000" in (await next_error(line)).text


async def test_a_container_is_not_heard_as_samples(line: AsyncTcpClient) -> None:
    await line.write_event(START)
    await line.write_event(AudioChunk(RATE, 2, 1, b"OggS\0\2" + bytes(320)).event())
    assert "begins like a container (ogg)" in (await next_error(line)).text


async def test_a_wrong_text_leaves_a_command_as_it_is(line: AsyncTcpClient) -> None:
    await line.write_event(START)
    await send(line, 1)
    await line.write_event(Synthesize("a", voice=None, text_format="ssml").event())
    assert "text_format" in (await next_error(line)).text
    await line.write_event(AudioStop().event())
    assert await text(line) == "ONE"


async def test_a_text_in_pieces_ends_with_its_client() -> None:
    async with connected(Speaking()) as (_, line):
        await line.write_event(SynthesizeStart().event())
        await line.write_event(SynthesizeChunk("Hello.").event())
        await line.write_event(SynthesizeStart().event())
        assert "comes once" in (await next_error(line)).text
        await line.write_event(SynthesizeChunk("Hello.").event())
        await line.write_event(SynthesizeStop().event())
        await line.write_event(SynthesizeStart().event())
        await line.write_event(SynthesizeStop().event())
        await events_until(line, "synthesize-stopped")
