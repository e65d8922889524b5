"""`/v1/speak` for Deepgram's clients, over a client that never reaches a server."""

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from http_answers import answer_to
from loop_gateway import LoopGateway
from plain_speaker import PlainSpeaker
from sockets import SpeakingSocket, speaking

from conch.gateway.deepgram.parameters import HINTS, REFUSED
from conch.gateway.deepgram.speak import FORMATS, voicing_of
from conch.gateway.errors import ApiError
from conch.gateway.voicing import Voicing
from conch.wire.errors import OptionError


def voicing(query: str, *, live: bool = False) -> Voicing:
    split = (item.partition("=") for item in query.split("&") if item)
    return voicing_of([(name, value) for name, _, value in split], live=live)


@pytest.mark.parametrize(
    ("query", "format", "rate", "voice"),
    [
        ("", "mp3", 24_000, "hibari"),
        ("model=aura-2-thalia-en&encoding=linear16", "wav", 24_000, "hibari"),
        ("model=aura-asteria-en&encoding=linear16&container=none", "pcm_s16", 24_000, "hibari"),
        ("model=alloy&encoding=linear16&sample_rate=16000", "wav", 16_000, "alloy"),
        ("encoding=mulaw", "wav_mulaw", 8_000, "hibari"),
        ("encoding=alaw&container=none&sample_rate=16000", "alaw", 16_000, "hibari"),
        ("encoding=opus&container=ogg", "opus", 24_000, "hibari"),
        ("encoding=flac", "flac", 24_000, "hibari"),
        ("encoding=aac&bit_rate=&callback=false", "aac", 24_000, "hibari"),
        ("&".join(f"{name}=x" for name in HINTS), "mp3", 24_000, "hibari"),
    ],
)
def test_a_query_says_how_a_text_is_to_sound(
    query: str, format: str, rate: int, voice: str
) -> None:
    asked = voicing(query)
    assert (asked.format, asked.rate, asked.voice) == (format, rate, voice)


def test_speed_is_the_option() -> None:
    assert voicing("speed=1.5").options["speed"] == 1.5


def test_a_websocket_has_bare_samples() -> None:
    assert voicing("", live=True).format == "pcm_s16"
    asked = voicing("encoding=mulaw&sample_rate=8000&container=none", live=True)
    assert (asked.format, asked.rate) == ("mulaw", 8_000)


@pytest.mark.parametrize(
    ("query", "live", "said"),
    [
        ("encoding=pcm16", False, "'encoding' takes one of linear16, mulaw, alaw, mp3"),
        ("encoding=mp3", True, "encoding takes linear16, mulaw, alaw; sent: 'mp3'"),
        ("encoding=opus&container=wav", False, "container takes ogg; sent: 'wav'"),
        ("container=wav", True, "container takes none; sent: 'wav'"),
        ("sample_rate=100", False, "'sample_rate' takes"),
        ("speed=9", False, "'speed' takes a number from 0.25 to 4"),
        ("model=nobody", False, "model: option 'voice' takes one of hibari"),
        ("model=aura-2-celeste-es", False, "model: option 'voice' takes one of hibari"),
        ("mood=glad", False, "unknown option 'mood'"),
        ("bit_rate=48000", False, "bit_rate has no counterpart here"),
        *((f"{name}=x", True, f"{name} has no counterpart") for name in REFUSED),
    ],
)
def test_a_wrong_parameter_is_named(query: str, live: bool, said: str) -> None:
    with pytest.raises((ApiError, OptionError)) as raised:
        voicing(query, live=live)
    assert said in str(raised.value)


def test_every_encoding_has_a_format() -> None:
    for encoding, containers in FORMATS.items():
        for container, format in containers.items():
            assert voicing(f"encoding={encoding}&container={container}").format == format


@pytest.fixture
def behind() -> PlainSpeaker:
    return PlainSpeaker()


def deepgrams(running: LoopGateway, query: str = "") -> AbstractAsyncContextManager[SpeakingSocket]:
    return speaking(running.url, query, "/v1/speak")


async def test_a_session_from_its_first_message_to_its_end(running: LoopGateway) -> None:
    async with deepgrams(running, "model=aura-2-thalia-en&encoding=linear16") as socket:
        metadata = await socket.message()
        assert metadata.pop("request_id").startswith("req_")
        assert metadata.pop("model_uuid") and metadata.pop("model_version")
        assert metadata == {"type": "Metadata", "model_name": "hibari"}
        await socket.say("Speak", text="Hello ")
        await socket.say("Speak", text="there.")
        await socket.say("Flush")
        assert await socket.message() == {"type": "Flushed", "sequence_id": 0}
        assert len(socket.audio) == 2 * len("Hello there.")
        await socket.say("Speak", text="One more")
        await socket.say("Close")
        assert [message["type"] for message in await socket.rest()] == ["Flushed"]
        assert len(socket.audio) == 2 * len("Hello there.One more")
    assert socket.code == 1000


async def test_clear_drops_the_text_before_it(running: LoopGateway, behind: PlainSpeaker) -> None:
    async with deepgrams(running) as socket:
        await socket.say("Speak", text="This is long… ")
        await socket.say("Flush")
        await socket.say("Clear")
        assert (await socket.message("Cleared"))["sequence_id"] == 0
        await socket.say("Speak", text="After.")
        await socket.say("Flush")
        assert (await socket.message("Flushed"))["sequence_id"] == 1
    assert behind.asked[-1] == "After."


async def test_errors_are_deepgrams(running: LoopGateway) -> None:
    async with deepgrams(running) as socket:
        await socket.message("Metadata")
        await socket.say("flush")
        error = await socket.message()
        assert (error["type"], error["variant"]) == ("Error", "SchemaError")
        assert "Speak, Flush, Clear, Close" in error["description"]
        await socket.say("Speak", text="This is bad. ")
        await socket.say("Flush")
        *_, error = await socket.rest()
        assert (error["variant"], socket.code) == ("COMPONENT_FAILED", 1011)


@pytest.mark.parametrize("query", ["format=pcm", "voice=hibari&sample_rate=16000"])
async def test_conchs_own_protocol_is_known_at_its_address_of_before(
    running: LoopGateway, query: str
) -> None:
    async with deepgrams(running, query) as socket:
        assert (await socket.message())["type"] == "ready"
        await socket.say("close")
        assert (await socket.rest())[-1]["type"] == "end"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "text takes a text with words"),
        ({"text": " "}, "text takes a text with words"),
        ({"text": 5}, "text takes a text; sent: 5"),
        ([], "the body takes a JSON object"),
        ({"url": "http://a"}, "text takes a text with words"),
    ],
)
async def test_a_wrong_body_is_answered_in_deepgrams_shape(
    running: LoopGateway, body: Any, said: str
) -> None:
    answer = await answer_to("POST", f"{running.url}/v1/speak", json=body)
    assert answer.status == 400
    assert said in answer.body["err_msg"]
