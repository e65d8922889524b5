"""`Client` and `AsyncClient` against a real server, over HTTP and gRPC."""

import asyncio
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr

from conch.client import AsyncClient, Client
from conch.wire.errors import (
    AudioError,
    DeadlineError,
    InvalidRequestError,
    OptionError,
    RequestCancelledError,
    ServerError,
)

pytestmark = pytest.mark.server


@pytest.fixture(params=["http", "grpc"])
def url(request: pytest.FixtureRequest, server: Any) -> str:
    address: str = getattr(server, f"{request.param}_url").rpartition("/")[2]
    return f"{request.param}://{address}"


def test_a_file_and_its_bytes_and_its_samples_say_the_same(url: str, speech_wav: Path) -> None:
    samples, rate = soundfile.read(speech_wav, dtype="int16")
    with Client(url) as client:
        text = client.transcribe(speech_wav).text
        assert len(text.split()) >= 10
        assert client.transcribe(str(speech_wav)).text == text
        assert client.transcribe(speech_wav.read_bytes()).text == text
        assert client.transcribe(samples, sample_rate=rate).text == text
        as_floats = np.asarray(samples / 32768)
        assert client.transcribe(as_floats, sample_rate=rate).text == text


def test_a_transcript_is_complete(url: str, speech_wav: Path) -> None:
    with Client(url) as client:
        transcript = client.transcribe(speech_wav, nbest=3, word_timestamps=True)
    assert len(transcript.nbest) == 3
    assert transcript.duration == pytest.approx(soundfile.info(speech_wav).duration, abs=0.01)
    assert transcript.path[:2] == ("vad", "moonshine_encoder")
    assert transcript.stages["total"].ms > 0
    assert " ".join(word.text for word in transcript.words) == transcript.text
    assert all(0 < word.confidence <= 1 for word in transcript.words)


def test_options_of_every_type_arrive(url: str, speech_wav: Path) -> None:
    with Client(url) as client:
        transcript = client.transcribe(
            speech_wav, nbest=2, rescore=True, language="en", lm_weight=0.25, word_bonus=1.5
        )
    assert len(transcript.nbest) == 2
    for hypothesis in transcript.nbest:
        assert hypothesis.lm_score is not None
        assert hypothesis.num_words is not None
        expected = hypothesis.am_score + 0.25 * hypothesis.lm_score + 1.5 * hypothesis.num_words
        assert hypothesis.score == pytest.approx(expected, abs=1e-3)


def test_a_batch_is_answered_row_by_row(url: str, speech_wav: Path) -> None:
    samples, rate = soundfile.read(speech_wav, dtype="float32")
    samples = soxr.resample(samples, rate, 16000)
    half = samples[: len(samples) // 2]
    silence = np.zeros(16000, np.float32)
    with Client(url) as client:
        alone = [client.transcribe(audio) for audio in (samples, half, silence)]
        batch = client.transcribe_batch([samples, half, silence])
        assert [item.text for item in batch] == [item.text for item in alone]
        assert [item.duration for item in batch] == [item.duration for item in alone]
        assert alone[2].text == ""
        data = speech_wav.read_bytes()
        assert len(client.transcribe_batch([data, data])) == 2
        assert client.transcribe_batch([]) == []


def test_errors_have_their_type_and_the_next_request_works(
    url: str, speech_wav: Path, short: np.ndarray
) -> None:
    cases: list[tuple[type[Exception], Any, dict[str, Any]]] = [
        (OptionError, speech_wav, {"nbest": 0}),
        (AudioError, "no-such-file.wav", {}),
        (InvalidRequestError, b"this is a text file", {}),
        (InvalidRequestError, np.array([0.0, math.nan], np.float32), {}),
        (InvalidRequestError, np.zeros(100, np.float32), {"sample_rate": 1}),
        (DeadlineError, speech_wav, {"deadline_ms": 1}),
        (DeadlineError, speech_wav, {"timeout_s": 0.001}),
        (ServerError, speech_wav, {"entry_point": "no_such_model"}),
    ]
    with Client(url) as client:
        text = client.transcribe(short).text
        for expected, audio, arguments in cases:
            with pytest.raises(expected):
                client.transcribe(audio, **arguments)
            assert client.transcribe(short).text == text


def test_a_component_is_not_the_speech_model(url: str, speech_wav: Path) -> None:
    with Client(url) as client, pytest.raises((InvalidRequestError, ServerError)):
        client.transcribe(speech_wav, entry_point="vad")


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_nobody_listens(scheme: str) -> None:
    # Port 1 of this machine is never a server.
    url = f"{scheme}://127.0.0.1:1"
    with Client(url) as client, pytest.raises(ServerError, match=f"{url}: .*`conch serve`"):
        client.transcribe(b"RIFF")


def test_one_client_serves_many_threads(url: str, short: np.ndarray) -> None:
    texts: list[str] = []
    with Client(url) as client:
        threads = [
            threading.Thread(target=lambda: texts.append(client.transcribe(short).text))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(texts) == 4
    assert len(set(texts)) == 1


async def test_many_requests_at_once(url: str, speech_wav: Path) -> None:
    async with AsyncClient(url) as client:
        answers = await asyncio.gather(*(client.transcribe(speech_wav) for _ in range(8)))
        batch = await client.transcribe_batch([speech_wav.read_bytes()] * 2)
        texts = [answer.text for answer in (*answers, *batch)]
    assert len(texts) == 10
    assert len(set(texts)) == 1
    assert texts[0]


async def test_errors_of_the_async_client(url: str, speech_wav: Path) -> None:
    async with AsyncClient(url) as client:
        with pytest.raises(OptionError):
            await client.transcribe(speech_wav, beam_size=0)
        with pytest.raises(InvalidRequestError, match="decoded"):
            await client.transcribe(b"this is a text file")
        with pytest.raises(DeadlineError):
            await client.transcribe(speech_wav, timeout_s=0.001)
        with pytest.raises(ServerError):
            await client.transcribe(speech_wav, entry_point="no_such_model")
        assert (await client.transcribe(speech_wav)).text
    async with AsyncClient(f"{url.partition(':')[0]}://127.0.0.1:1") as client:
        with pytest.raises(ServerError, match="`conch serve`"):
            await client.transcribe(speech_wav)


async def test_a_cancelled_task_leaves_the_client_usable(url: str, speech_wav: Path) -> None:
    async with AsyncClient(url) as client:
        task = asyncio.create_task(client.transcribe(speech_wav))
        # One turn of the loop starts the task; its answer takes longer than that.
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises((asyncio.CancelledError, RequestCancelledError)):
            await task
        assert (await client.transcribe(speech_wav)).text
