"""The Wyoming protocol: the package's own client against a real server, and hostile bytes."""

import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import soundfile
from gateways import Gateway
from lone_gateway import address_of, lone_gateway
from recordings import Recording, wer
from wyoming.asr import Transcribe, Transcript, TranscriptChunk
from wyoming.audio import AudioChunk, AudioFormat, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeVoice,
)
from wyoming_events import events_until, next_error

from conch.client import Client
from conch.gateway.errors import ApiError
from conch.gateway.wyoming.events import samples_of
from conch.gateway.wyoming.recognition import parse_options
from conch.wire.errors import ConfigError, OptionError

TEXT = "Hello there. The kitchen light is on."


@pytest.fixture(scope="module")
def address(grpc_url: str) -> Iterator[tuple[str, int]]:
    with lone_gateway(servers=(grpc_url,), wyoming=("127.0.0.1", 0)) as service:
        yield address_of(service, "wyoming")


@pytest.fixture(scope="module")
def alone() -> Iterator[tuple[str, int]]:
    """Yield the address of a gateway without a server."""
    with lone_gateway(wyoming=("127.0.0.1", 0)) as service:
        yield address_of(service, "wyoming")


async def say(client: AsyncTcpClient, item: Recording, asked: Transcribe) -> list[Event]:
    """Send a recording as a command, and return what comes back."""
    samples, rate = soundfile.read(item.path, dtype="int16")
    await client.write_event(asked.event())
    await client.write_event(AudioStart(rate, 2, 1).event())
    for first in range(0, len(samples), 1024):
        chunk = samples[first : first + 1024].tobytes()
        await client.write_event(AudioChunk(rate, 2, 1, chunk).event())
    await client.write_event(AudioStop().event())
    return await events_until(client, "transcript-stop")


@pytest.mark.server
async def test_a_command_becomes_text(address: tuple[str, int], speech: Recording) -> None:
    async with AsyncTcpClient(*address, read_timeout=60) as client:
        for _ in range(2):  # a connection may have several
            events = await say(client, speech, Transcribe(language="en"))
            first, *_, last, end = (event.type for event in events)
            assert (first, last, end) == ("transcript-start", "transcript", "transcript-stop")
            whole = Transcript.from_event(events[-2])
            chunks = [TranscriptChunk.from_event(event).text for event in events[1:-2]]
            assert "".join(chunks) == whole.text
            assert wer(speech.text, whole.text) < 0.1
            assert whole.language == "en"


@pytest.mark.server
async def test_a_text_is_spoken_whole_and_in_pieces(
    address: tuple[str, int], gateway: Gateway
) -> None:
    async with AsyncTcpClient(*address, read_timeout=60) as client:
        voice = SynthesizeVoice(name="hibari")
        await client.write_event(Synthesize(TEXT, voice).event())
        whole = await events_until(client, "audio-stop")
        await client.write_event(SynthesizeStart(voice).event())
        for piece in ("Hello ", "there. The kit", "chen light is on."):
            await client.write_event(SynthesizeChunk(piece).event())
        # For servers that take no pieces; it is not spoken twice.
        await client.write_event(Synthesize(TEXT, voice).event())
        await client.write_event(SynthesizeStop().event())
        pieces = await events_until(client, "synthesize-stopped")
        assert pieces[-2].type == "audio-stop"
    audio = audio_of(whole)
    assert len(audio) == len(audio_of(pieces[:-1])) > 2 * 24_000
    with Client(gateway.grpc_url) as other:
        text = other.transcribe(np.frombuffer(audio, np.int16), sample_rate=24_000).text
    assert wer(TEXT, text) < 0.2


def audio_of(events: list[Event]) -> bytes:
    first, *chunks, last = events
    start = AudioStart.from_event(first)
    assert (start.rate, start.width, start.channels) == (24_000, 2, 1)
    assert last.type == "audio-stop"
    return b"".join(AudioChunk.from_event(event).audio for event in chunks)


@pytest.mark.server
async def test_it_describes_itself_and_errors_leave_the_connection_open(
    address: tuple[str, int], speech: Recording
) -> None:
    async with AsyncTcpClient(*address, read_timeout=60) as client:
        await client.write_event(Describe().event())
        info = Info.from_event((await events_until(client, "info"))[-1])
        assert info.asr[0].models[0].languages == ["en"]
        assert info.asr[0].supports_transcript_streaming
        assert info.tts[0].voices[0].name == "hibari"
        for wrong, said in (
            (Synthesize("Hello.", SynthesizeVoice(name="nobody")), "voice takes hibari, "),
            (Synthesize("…"), "no "),
            (AudioStart(rate=7, width=2, channels=1), "rate takes 4000 to 192000 Hz; sent: 7"),
        ):
            await client.write_event(wrong.event())
            assert said in (await next_error(client)).text
        await client.write_event(Transcribe(name="nobody").event())
        await client.write_event(AudioStart(rate=16_000, width=2, channels=1).event())
        assert "no model 'nobody'" in (await next_error(client)).text
        # What follows is thrown away up to its end.
        await client.write_event(AudioChunk(16_000, 2, 1, bytes(320)).event())
        await client.write_event(AudioStop().event())
        await client.write_event(Ping("still here").event())
        assert Pong.from_event((await events_until(client, "pong"))[-1]).text == "still here"
        events = await say(client, speech, Transcribe())
        assert Transcript.from_event(events[-2]).text


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"GET / HTTP/1.1\r\n", b"a line of JSON"),
        (b"[]\n", b"a line of JSON with its type"),
        (b'{"data": {}}\n', b"a line of JSON with its type"),
        (b"x" * 100_000 + b"\n", b"at most 64 KB"),
        (b'{"type": "audio-chunk", "payload_length": 1000000000000}\n', b"at most 4194304 bytes"),
        (b'{"type": "audio-chunk", "data_length": "much"}\n', b"a line of JSON with its type"),
        (b'{"type": "audio-chunk", "data_length": -1}\n', b"a line of JSON with its type"),
        (b'{"type": "ping", "data": ' + b"[" * 30_000 + b"\n", b"a line of JSON with its type"),
        (b'{"type": 5}\n', b"Expected `str`, got `int`"),
    ],
)
def test_what_is_no_event_ends_the_connection_with_an_error(
    alone: tuple[str, int], sent: bytes, said: bytes
) -> None:
    with socket.create_connection(alone, timeout=20) as line:
        line.sendall(sent)
        answer = line.makefile("rb").read()
    assert b'"error"' in answer and said in answer


async def test_without_a_server_a_command_is_refused_and_the_next_one_too(
    alone: tuple[str, int],
) -> None:
    async with AsyncTcpClient(*alone, read_timeout=60) as client:
        for _ in range(2):
            await client.write_event(AudioStart(rate=16_000, width=2, channels=1).event())
            assert (await next_error(client)).code == "no_server"
            await client.write_event(AudioStop().event())
        await client.write_event(Event("audio-start", {"rate": 16_000}))
        assert "lacks 'width'" in (await next_error(client)).text
        await client.write_event(Describe().event())
        assert Info.from_event((await events_until(client, "info"))[-1]).tts == []


def test_beyond_this_machine_it_has_to_be_opened() -> None:
    with pytest.raises(ConfigError, match=r"Wyoming on 0.0.0.0 would serve everybody .* --open"):
        lone_gateway(wyoming=("0.0.0.0", 10_300))
    lone_gateway(wyoming=("0.0.0.0", 10_300), is_open=True)


@pytest.mark.parametrize(("width", "channels"), [(1, 1), (2, 1), (2, 2), (4, 1), (4, 3)])
def test_samples_of_every_width_are_the_same(width: int, channels: int) -> None:
    wave_form = np.sin(np.arange(400) / 9) * 0.7
    scale, dtype = {1: (127, "u1"), 2: (32767, "<i2"), 4: (2**31 - 1, "<i4")}[width]
    written = np.round(wave_form * scale) + (128 if width == 1 else 0)
    audio = np.repeat(written.astype(dtype)[:, None], channels, 1).tobytes()
    result = samples_of(audio, AudioFormat(16_000, width, channels))
    level = result / 32768 if result.dtype == np.int16 else result
    assert np.abs(level - wave_form).max() < (0.02 if width == 1 else 1e-3)


@pytest.mark.parametrize(
    ("size", "width", "channels", "error"),
    [
        (3, 2, 1, "whole samples of 2 bytes; it has 3"),
        (6, 3, 1, "width takes 1, 2 or 4 bytes a sample; sent: 3"),
        (4, 2, 0, "channels takes 1 to 16; sent: 0"),
        (4, "2", 1, "width takes"),
    ],
)
def test_a_chunk_that_does_not_fit_its_format_is_refused(
    size: int, width: Any, channels: int, error: str
) -> None:
    with pytest.raises(ApiError, match=error):
        samples_of(bytes(size), AudioFormat(16_000, width, channels))


def test_names_go_before_terms() -> None:
    request = Transcribe(
        language="en-US", transcript_names=["Kitchen: lamp", ""], transcript_terms=["dim, slowly"]
    )
    assert parse_options(request, {}, ["en"]).sent == {
        "language": "en",
        "names": "Kitchen lamp:12,dim slowly",
    }
    many = Transcribe(transcript_names=["a long name"], transcript_terms=["word " * 20] * 500)
    assert parse_options(many, {}, ["en"]).names.startswith("a long name:12,word word")
    with pytest.raises(OptionError, match="'language' takes en, de here; sent: 'ko'"):
        parse_options(Transcribe(language="ko"), {}, ["en", "de"])
