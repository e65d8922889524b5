"""`GET /v1/conch/speak`: text in pieces, audio out, over a plain client and over a real server."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from loop_gateway import LoopGateway, loop_gateway, until
from plain_speaker import PlainSpeaker
from sockets import SpeakingSocket, speaking

from conch.client import Client
from conch.gateway.errors import ApiError
from conch.gateway.limits import Limits
from conch.gateway.speak import MAX_FLUSHES, query_of
from conch.gateway.voicing import MAX_WAITING
from conch.wire.errors import OptionError

TEXT = "Hello there. It works, and the rest is still being made."


@pytest.fixture
def behind() -> PlainSpeaker:
    return PlainSpeaker()


@pytest.fixture
async def socket(running: LoopGateway) -> AsyncIterator[SpeakingSocket]:
    async with speaking(running.url) as socket:
        yield socket


async def test_sentences_are_spoken_as_they_are_written(
    running: LoopGateway, behind: PlainSpeaker
) -> None:
    async with speaking(running.url, protocols=("conch",)) as socket:
        ready = await socket.message()
        assert ready.pop("session").startswith("sess_") and ready.pop("expires_at")
        assert ready == {
            "type": "ready",
            "format": "pcm_s16",
            "sample_rate": 24_000,
            "voice": "hibari",
        }
        await socket.say("text", text="One is he")
        await socket.say("text", text="re. Two i")
        sentence = await socket.message()
        assert sentence == {
            "type": "sentence",
            "text": "One is here.",
            "phonemes": "",
            "start": 0.0,
            "end": 1.2,
            "words": [],
        }
        await socket.say("text", text="s here")
        await socket.say("flush")
        assert (await socket.message())["start"] == 1.2
        figures = {"path": ["vocoder"], "warnings": []}
        stages = {"vocoder": {"calls": 2, "ms": 10.0}, "total": {"calls": 2, "ms": 12.0}}
        flushed = await socket.message()
        assert flushed == {"type": "flushed", "audio_s": 2.3, **figures, "stages": stages}
        await socket.say("text", text="Three.")
        await socket.say("close")
        *_, last, end = await socket.rest()
        assert (last["type"], end) == ("flushed", {"type": "end", "audio_s": 2.9})
    assert behind.asked == ["One is here.", "Two is here", "Three."]
    assert len(socket.audio) == 2 * 29 and socket.socket.close_code == 1000
    await until(lambda: running.ended("/v1/conch/speak", 1000) == 1)
    labels = {"route": "/v1/conch/speak", "key": "anybody"}
    seconds = running.metric("conch_gateway_audio_seconds_total", **labels)
    assert seconds == pytest.approx(2.9)
    name = "conch_gateway_first_audio_seconds_count"
    assert running.metric(name, route="/v1/conch/speak") == 2


async def test_a_cancel_ends_what_is_spoken_and_drops_what_waits(
    behind: PlainSpeaker, socket: SpeakingSocket
) -> None:
    await socket.say("text", text="This is long… And more. ")
    await socket.say("flush")
    await socket.say("text", text="Never said.")
    await socket.say("flush")
    await until(lambda: behind.waiting == 1)
    await socket.say("cancel")
    cancelled = await socket.message("cancelled", "flushed")
    assert cancelled == {"type": "cancelled", "audio_s": 0.1}
    await socket.say("text", text="New.")
    await socket.say("close")
    sentence, _, end = await socket.rest()
    assert (sentence["text"], sentence["start"]) == ("New.", 0.1)
    assert end["audio_s"] == 0.5 and len(socket.audio) == 2 * 5
    assert "Never said." not in behind.asked


async def test_a_cancel_behind_a_close_ends_the_session(
    behind: PlainSpeaker, socket: SpeakingSocket
) -> None:
    await socket.say("text", text="This is long…")
    await socket.say("close")
    await until(lambda: behind.waiting == 1)
    await socket.say("cancel")
    types = [message["type"] for message in await socket.rest()]
    assert types == ["ready", "sentence", "cancelled", "end"]


async def test_what_has_no_sound_is_a_warning_and_no_text_is_none(socket: SpeakingSocket) -> None:
    for text in ("SILENT.", "", "Said."):
        await socket.say("text", text=text)
        await socket.say("flush")
        flushed = await socket.message("flushed")
        assert flushed["warnings"] == (["no word"] if text == "SILENT." else [])
    await socket.say("close")
    assert [message["type"] for message in await socket.rest()] == ["end"]
    assert len(socket.audio) == 10


async def test_a_frame_that_is_no_command_is_refused_and_the_session_goes_on(
    socket: SpeakingSocket,
) -> None:
    for frame in ("Hello.", '{"type":"talk"}', '{"type":"text","text":5}', "[" * 9999):
        await socket.socket.send_str(frame)
        error = (await socket.message("error"))["error"]
        assert error["code"] == "unknown_message"
        assert "a type of text, flush, cancel, close" in error["message"]
    await socket.say("text", text="Said.")
    await socket.say("close")
    assert (await socket.rest())[-1] == {"type": "end", "audio_s": 0.5}


async def test_an_error_says_where_the_audio_stopped(socket: SpeakingSocket) -> None:
    await socket.say("text", text="Said. A")
    await socket.message("sentence")
    await socket.say("text", text=" bad one. ")
    await socket.say("flush")
    *_, error = await socket.rest()
    assert error["audio_s"] == 0.5 and error["error"]["code"] == "component_failed"
    assert socket.socket.close_code == 1011


async def test_too_much_text_ends_the_session(socket: SpeakingSocket) -> None:
    await socket.say("text", text="a" * (MAX_WAITING + 1))
    *_, error = await socket.rest()
    assert error["error"]["code"] == "backlog_exceeded" and "100001" in error["error"]["message"]
    assert socket.socket.close_code == 1008


async def test_too_many_flushes_end_the_session(
    behind: PlainSpeaker, socket: SpeakingSocket
) -> None:
    await socket.say("text", text="This is long…")
    for _ in range(MAX_FLUSHES + 1):
        await socket.say("flush")
    *_, error = await socket.rest()
    assert error["error"]["code"] == "backlog_exceeded"
    assert "1001 flushes would wait; at most 1000 may" in error["error"]["message"]
    assert behind.asked == ["This is long…"]
    assert socket.socket.close_code == 1008


async def test_a_session_counts_for_its_key_and_ends_with_its_seconds(behind: Any) -> None:
    limits = Limits(streams=1, audio_s_per_minute=2)
    async with loop_gateway(behind, limits) as running:
        async with speaking(running.url) as socket:
            with pytest.raises(aiohttp.WSServerHandshakeError, match="429"):
                async with speaking(running.url):
                    pass
            await socket.say("text", text="This takes longer than it may. ")
            await socket.say("flush")
            *_, error = await socket.rest()
        assert error["error"]["code"] == "rate_limit_exceeded"
        assert socket.socket.close_code == 1008


async def test_a_gateway_that_stops_speaks_what_was_written(
    running: LoopGateway, behind: PlainSpeaker, socket: SpeakingSocket
) -> None:
    await socket.say("text", text="Not ended")
    await socket.say("talk")
    await socket.message("error")
    running.gateway.draining.set()
    *_, end = await socket.rest()
    assert end == {"type": "end", "audio_s": 0.9} and behind.asked == ["Not ended"]
    assert socket.socket.close_code == 1001


async def test_a_client_that_goes_away_ends_the_making(
    running: LoopGateway, behind: PlainSpeaker
) -> None:
    async with speaking(running.url) as socket:
        await socket.say("text", text="This is long… And more. ")
        await until(lambda: behind.waiting == 1)
        assert socket.socket._response is not None
        socket.socket._response.close()
    await until(lambda: running.ended("/v1/conch/speak", 1006) == 1)
    assert running.metric("conch_gateway_sessions", route="/v1/conch/speak") == 0


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ([("voice", "nobody")], "option 'voice' takes one of hibari"),
        ([("speed", "9")], "from 0.25 to 4"),
        ([("sped", "1")], "did you mean 'speed'"),
        ([("format", "ogg")], "format takes mp3, opus"),
        ([("speed", "1"), ("speed", "2")], "'speed' comes once"),
        ([("model", "gpt-9")], "no model 'gpt-9'"),
    ],
)
def test_a_wrong_query_is_named(query: list[tuple[str, str]], said: str) -> None:
    with pytest.raises((ApiError, OptionError), match=said):
        query_of(query, {})


def test_a_query_has_the_options_of_a_text() -> None:
    result = query_of([("voice", "alloy"), ("speed", "2"), ("format", "opus")], {})
    assert (result.format, result.rate, result.voice) == ("opus", 24_000, "alloy")
    assert result.options == {"voice": "alloy", "speed": 2.0, "format": "pcm_f32"}
    empty = [("voice", ""), ("speed", ""), ("format", ""), ("model", "")]
    assert query_of(empty, {}) == query_of([], {})


@pytest.mark.server
async def test_a_text_in_pieces_sounds_as_the_whole(gateway) -> None:
    async def audio_of(query: str) -> bytes:
        async with speaking(gateway.url, query) as socket:
            await socket.say("text", text=TEXT)
            await socket.say("close")
            await socket.rest()
            return socket.audio

    async with speaking(gateway.url, "timestamps=true") as socket:
        for start in range(0, len(TEXT), 5):
            await socket.say("text", text=TEXT[start : start + 5])
        await socket.say("close")
        messages = await socket.rest()
    audio, mp3 = socket.audio, await audio_of("format=mp3")
    with Client(gateway.grpc_url) as client:
        whole = client.synthesize(TEXT, format="pcm_s16")
        pieces = list(client.synthesize_stream([TEXT[:20], TEXT[20:]]))
    assert len(audio) == len(whole.audio) == 2 * sum(len(piece.waveform) for piece in pieces)
    words = [word["text"] for item in messages for word in item.get("words", ())]
    assert " ".join(words) == TEXT
    assert messages[-1]["audio_s"] == pytest.approx(len(audio) / 48_000, abs=0.01)
    assert mp3[:2] == b"\xff\xf3" or mp3[:3] == b"ID3"
