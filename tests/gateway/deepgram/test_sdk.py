"""The unmodified `deepgram-sdk` of Python and `@deepgram/sdk` of npm."""

import asyncio
import io
import json
import os
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from deepgram import AsyncDeepgramClient, DeepgramClient, DeepgramClientEnvironment
from deepgram.core.api_error import ApiError
from deepgram.core.events import EventType
from deepgram.listen.v1.types import (
    ListenV1Metadata,
    ListenV1Results,
    ListenV1SpeechStarted,
    ListenV1UtteranceEnd,
)
from deepgram.listen.v2.types import ListenV2Connected, ListenV2TurnInfo
from deepgram.speak.v1.types import SpeakV1Cleared, SpeakV1Flushed, SpeakV1Metadata, SpeakV1Text
from gateways import Gateway
from known_models import skip_without
from programs import NODE_TESTS, required
from recordings import Recording, wer
from subprocesses import output_of
from websockets.exceptions import InvalidStatus

from conch.families.speakers import MODEL as SPEAKERS

RATE = 16_000
RAW: dict[str, Any] = {"model": "nova-3", "encoding": "linear16", "sample_rate": str(RATE)}
SETTINGS: dict[str, Any] = {"punctuate": True, "utterances": True, "detect_language": True}
TEXT = "Hello there. It works."

pytestmark = [
    pytest.mark.server,
    # The package asks websockets for its classes of before.
    pytest.mark.filterwarnings("ignore:websockets:DeprecationWarning"),
]


def environment(url: str) -> DeepgramClientEnvironment:
    socket_url = url.replace("http", "ws")
    urls = {"base": url, "production": socket_url, "agent": socket_url, "agent_rest": url}
    return DeepgramClientEnvironment(**urls)


@pytest.fixture
def client(gateway: Gateway) -> Iterator[DeepgramClient]:
    with httpx.Client(timeout=60) as http:
        where = environment(gateway.url)
        yield DeepgramClient(api_key="any", environment=where, httpx_client=http)


def pcm(recording: Recording) -> bytes:
    return (recording.waveform() * 32_767).astype("<i2").tobytes()


async def messages_of(gateway: Gateway, audio: bytes, *, finalize: bool, **query: Any) -> list[Any]:
    """Return the messages of a live session, and its close code at the end.

    With interim results, it waits for one in the middle of the speech.
    """
    client = AsyncDeepgramClient(api_key="any", environment=environment(gateway.url))
    found: list[Any] = []
    has_interim = asyncio.Event()

    def hear(message: Any) -> None:
        found.append(message)
        if getattr(message, "is_final", True) is False:
            has_interim.set()

    async with client.listen.v1.connect(**{**RAW, **query}) as connection:
        connection.on(EventType.MESSAGE, hear)
        connection.on(EventType.ERROR, found.append)
        listening = asyncio.create_task(connection.start_listening())
        for start in range(0, len(audio), RATE):
            await connection.send_media(audio[start : start + RATE])
            if start == 4 * RATE and "interim_results" in query:
                await asyncio.wait_for(has_interim.wait(), 60)
        await connection.send_keep_alive()
        if finalize:
            await connection.send_finalize()
        await connection.send_close_stream()
        await listening
        return [*found, connection._websocket.close_code]


async def test_live_audio(gateway: Gateway, talk: Recording) -> None:
    query = {"interim_results": True, "vad_events": "true", "smart_format": "true"}
    silence = {"utterance_end_ms": "1000", "endpointing": 500}
    *messages, last, code = await messages_of(
        gateway, pcm(talk), finalize=False, **query, **silence
    )
    assert {type(message) for message in messages} == {
        *(ListenV1Results, ListenV1SpeechStarted, ListenV1UtteranceEnd)
    }
    results = [message for message in messages if isinstance(message, ListenV1Results)]
    finals = [message for message in results if message.is_final]
    assert {message.is_final for message in results} == {True, False}
    best = [message.channel.alternatives[0] for message in finals]
    assert wer(talk.text, " ".join(item.transcript for item in best)) < 0.2
    words = [word for item in best for word in item.words]
    assert words[0].punctuated_word and words[0].word == words[0].punctuated_word.lower()
    assert [word.start for word in words] == sorted(word.start for word in words)
    assert any(message.speech_final for message in finals)
    assert isinstance(last, ListenV1Metadata)
    assert last.duration == pytest.approx(len(talk.waveform()) / RATE, abs=0.01)
    assert code == 1000


async def test_a_finalize_is_answered(gateway: Gateway, speech: Recording) -> None:
    *results, metadata, code = await messages_of(gateway, pcm(speech), finalize=True)
    assert [item.from_finalize for item in results] == [*([False] * (len(results) - 1)), True]
    text = " ".join(item.channel.alternatives[0].transcript for item in results)
    assert wer(speech.text, text) < 0.2
    assert text == text.lower(), "without punctuate words are bare"
    assert (type(metadata), code) == (ListenV1Metadata, 1000)


async def test_turns(gateway: Gateway, talk: Recording) -> None:
    client = AsyncDeepgramClient(api_key="any", environment=environment(gateway.url))
    query: Any = {**RAW, "model": "flux-general-en", "eot_timeout_ms": 700, "keyterm": "Conch"}
    found: list[Any] = []
    audio = pcm(talk)
    async with client.listen.v2.connect(**query) as connection:
        connection.on(EventType.MESSAGE, found.append)
        connection.on(EventType.ERROR, found.append)
        listening = asyncio.create_task(connection.start_listening())
        for start in range(0, len(audio), RATE):
            await connection.send_media(audio[start : start + RATE])
        await connection.send_close_stream()
        await listening
    connected, *messages = found
    assert isinstance(connected, ListenV2Connected)
    told = [message for message in messages if isinstance(message, ListenV2TurnInfo)]
    numbers = [connected.sequence_id, *(message.sequence_id for message in messages)]
    assert numbers == [*range(len(messages) + 1)]
    ends = [message for message in told if message.event == "EndOfTurn"]
    assert [message.turn_index for message in ends] == [*range(len(ends))]
    assert wer(talk.text, " ".join(message.transcript for message in ends)) < 0.2
    for number in range(len(ends)):
        first, *between, _ = [item.event for item in told if item.turn_index == number]
        assert first == "StartOfTurn" and {*between} <= {"Update"}
    assert all(word.start is not None for message in ends for word in message.words)


def test_a_recording(client: DeepgramClient, talk: Recording) -> None:
    answer: Any = client.listen.v1.media.transcribe_file(
        request=talk.path.read_bytes(), model="nova-3", **SETTINGS
    )
    (channel,) = answer.results.channels
    assert wer(talk.text, channel.alternatives[0].transcript) < 0.2
    assert len(answer.results.utterances) == 2
    assert answer.metadata.duration == pytest.approx(len(talk.waveform()) / RATE, abs=0.01)


def test_speakers_have_numbers(client: DeepgramClient, talk: Recording) -> None:
    skip_without(SPEAKERS)
    answer: Any = client.listen.v1.media.transcribe_file(
        request=talk.path.read_bytes(), model="nova-3", diarize=True, **SETTINGS
    )
    (channel,) = answer.results.channels
    assert wer(talk.text, channel.alternatives[0].transcript) < 0.2
    assert len(answer.results.utterances) == 2
    first, *others = (word.speaker for word in channel.alternatives[0].words)
    assert first == 0 and {*others} <= {0, 1}


def test_channels_of_raw_samples(client: DeepgramClient, speech: Recording) -> None:
    left = speech.waveform()
    stereo = np.stack([left, np.zeros_like(left)], axis=1)
    audio = (stereo * 32_767).astype("<i2").tobytes()
    more = {"additional_query_parameters": {"sample_rate": RATE, "channels": 2}}
    answer: Any = client.listen.v1.media.transcribe_file(
        request=audio, encoding="linear16", multichannel=True, request_options=more
    )
    first, second = (item.alternatives[0].transcript for item in answer.results.channels)
    assert wer(speech.text, first) < 0.2
    assert second == ""


def test_errors(client: DeepgramClient) -> None:
    with pytest.raises(ApiError) as noise:
        client.listen.v1.media.transcribe_file(request=b"no audio at all" * 100)
    assert (noise.value.status_code, noise.value.body["err_code"]) == (400, "INVALID_AUDIO")
    with pytest.raises(ApiError) as refused:
        client.listen.v1.media.transcribe_url(url="http://127.0.0.1/talk.wav")
    assert refused.value.status_code == 415
    with (
        pytest.raises(InvalidStatus) as wrong,
        client.listen.v1.connect(model="nova-3", redact="pci"),
    ):
        pass
    assert wrong.value.response.status_code == 400


def test_a_key_is_a_token(locked: Gateway, speech: Recording) -> None:
    with httpx.Client(verify=locked.trust, timeout=60) as trusting:
        for key, status in ((locked.key, 200), ("wrong", 401)):
            client = DeepgramClient(
                api_key=key, environment=environment(locked.url), httpx_client=trusting
            )
            if status == 200:
                answer: Any = client.listen.v1.media.transcribe_file(
                    request=speech.path.read_bytes(), model="nova-3"
                )
                assert answer.results.channels[0].alternatives[0].transcript
                continue
            with pytest.raises(ApiError) as raised:
                client.listen.v1.media.transcribe_file(request=b"any")
            assert raised.value.status_code == status
            assert raised.value.body["err_code"] == "INVALID_AUTH"


@pytest.mark.parametrize(
    ("settings", "subtype", "rate"),
    [
        ({"encoding": "linear16"}, "PCM_16", 24_000),
        ({"encoding": "mulaw"}, "ULAW", 8_000),
        ({"encoding": "linear16", "sample_rate": 16_000}, "PCM_16", 16_000),
    ],
)
def test_a_text_is_spoken(
    client: DeepgramClient, settings: dict[str, Any], subtype: str, rate: int
) -> None:
    made = client.speak.v1.audio.generate(text=TEXT, model="aura-2-thalia-en", **settings)
    with soundfile.SoundFile(io.BytesIO(b"".join(made))) as file:
        assert (file.subtype, file.samplerate) == (subtype, rate)
        assert 1.0 < len(file.read()) / rate < 5.0


def test_a_text_is_spoken_while_it_is_written(client: DeepgramClient) -> None:
    audio, kinds = 0, []
    with client.speak.v1.connect(model="aura-2-thalia-en", sample_rate="24000") as socket:
        for part in (TEXT[:8], TEXT[8:]):
            socket.send_text(SpeakV1Text(text=part))
        socket.send_flush()
        for message in socket:
            if isinstance(message, bytes):
                audio += len(message)
                continue
            kinds.append(type(message))
            if message.type == "Flushed":
                socket.send_clear()
            elif message.type == "Cleared":
                socket.send_close()
    assert kinds[:2] == [SpeakV1Metadata, SpeakV1Flushed]
    assert 1.0 < audio / 2 / 24_000 < 5.0
    assert len(kinds) == 3 and kinds[2] in (SpeakV1Cleared, SpeakV1Flushed)


def test_node(locked: Gateway, speech: Recording, tmp_path) -> None:
    program = required("node")
    required("npm")
    path = tmp_path / "speech.pcm"
    path.write_bytes(pcm(speech))
    command = (program, NODE_TESTS / "deepgram.mjs", locked.url, locked.key, speech.path, path)
    environment = {**os.environ, "NODE_EXTRA_CA_CERTS": locked.ca}
    answers = json.loads(output_of(*command, env=environment))
    assert wer(speech.text, answers["file"]["transcript"]) < 0.2
    assert (answers["error"]["status"], answers["error"]["err_code"]) == (401, "INVALID_AUTH")
    *results, metadata = answers["live"]
    text = " ".join(item["channel"]["alternatives"][0]["transcript"] for item in results)
    assert wer(speech.text, text) < 0.2
    assert metadata["type"] == "Metadata"
    assert 24_000 < answers["speech"] < 120_000
    first, *audio, flushed, cleared = answers["spoken"]
    assert (first, flushed, cleared) == ("Metadata", "Flushed", "Cleared")
    assert sum(audio) == answers["speech"]
