"""Live streams on the real server, over HTTP and gRPC."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from tritonclient.utils import InferenceServerException

from conch.client import AsyncClient, Client
from conch.errors import AudioError, SessionError

pytestmark = pytest.mark.server

STEP = 10_240
CHILDREN = ("ctc_streaming_encoder", "ctc_streaming_decoder")


class Stream:
    """One stream over a client of either kind."""

    def __init__(self, url: str, stream_id: int | str, kind=http, **parameters) -> None:
        self.kind, self.stream_id, self.parameters = kind, stream_id, parameters
        self.client = kind.InferenceServerClient(url)
        self.is_new = True

    def send(self, waveform: np.ndarray, *, ends=False, zeros=0) -> dict:
        """Send a chunk, padded with zeros; return RESULT."""
        padded = np.pad(waveform.astype(np.float32), (0, zeros))[np.newaxis]
        wav = self.kind.InferInput("WAV", list(padded.shape), "FP32")
        wav.set_data_from_numpy(padded)
        lens = self.kind.InferInput("WAV_LENS", [1, 1], "INT32")
        lens.set_data_from_numpy(np.array([[len(waveform)]], np.int32))
        starts, self.is_new = self.is_new, False
        answer = self.client.infer(
            "speech",
            [wav, lens],
            parameters=self.parameters,
            sequence_id=self.stream_id,
            sequence_start=starts,
            sequence_end=ends,
        )
        result = json.loads(answer.as_numpy("RESULT").item())
        assert answer.as_numpy("TRANSCRIPTS")[0, 0].decode() == result["text"]
        return result

    def send_all(self, waveform: np.ndarray, samples: int) -> dict:
        for start in range(0, len(waveform), samples):
            result = self.send(
                waveform[start : start + samples], ends=start + samples >= len(waveform)
            )
        self.client.close()
        return result


@pytest.fixture(scope="module")
def two_utterances(recordings) -> np.ndarray:
    pause = np.zeros(32_000, np.float32)
    return np.concatenate([recordings[0].waveform(), pause, recordings[1].waveform(), pause])


@pytest.mark.parametrize("kind", [http, grpc], ids=["http", "grpc"])
@pytest.mark.parametrize("stream_id", [77, "a string"])
def test_a_stream(server, two_utterances, kind, stream_id):
    url = server.http_url if kind is http else server.grpc_url
    stream = Stream(url, stream_id, kind)
    texts, stable = [], ""
    for start in range(0, len(two_utterances), 8_000):
        result = stream.send(two_utterances[start : start + 8_000])
        assert result["stable"].startswith(stable)
        assert result["text"].startswith(result["stable"])
        stable = result["stable"]
        texts.append(result["text"])
    final = stream.send(two_utterances[:0], ends=True, zeros=800)
    assert len(set(texts)) > 5
    assert final["is_final"]
    assert final["stable"] == final["text"]
    assert [segment["endpoint"] for segment in final["segments"]] == ["silence", "silence"]
    assert final["duration"] == pytest.approx(len(two_utterances) / 16_000, abs=1e-3)
    stream.client.close()


def test_streams_share_executions_and_each_equals_its_own_single_run(
    server, recordings, executions
):
    waveforms = [item.waveform() for item in recordings] * 2 + [
        item.waveform()[::-1] for item in recordings[:4]
    ]
    expected = [
        Stream(server.http_url, 1).send_all(waveform, len(waveform)) for waveform in waveforms
    ]
    before = {model: executions(model) for model in ("vad", *CHILDREN)}
    together = threading.Barrier(len(waveforms))

    def run(index: int) -> dict:
        stream = Stream(server.http_url, 100 + index)
        together.wait(30)
        return stream.send_all(waveforms[index], 4_000 + 1_111 * index)

    with ThreadPoolExecutor(len(waveforms)) as pool:
        found = list(pool.map(run, range(len(waveforms))))
    for one, wanted in zip(found, expected, strict=True):
        assert one["text"] == wanted["text"]
        assert [item["start"] for item in one["segments"]] == [
            item["start"] for item in wanted["segments"]
        ]
    for model, (requests, runs) in before.items():
        requests_after, runs_after = executions(model)
        assert runs_after - runs < requests_after - requests, f"{model} shares no execution"


def test_two_passes(server, two_utterances):
    offline = http.InferenceServerClient(server.http_url, network_timeout=120)
    streaming = Stream(server.http_url, 5).send_all(two_utterances, STEP)
    final = Stream(server.http_url, 6, mode="two_pass").send_all(two_utterances, STEP)
    assert [segment["passes"] for segment in final["segments"]] == [2, 2]
    assert final["text"] != streaming["text"]
    assert "nobody" in final["text"].lower()
    offline.close()


def test_options_hold_for_a_stream_and_a_bad_chunk_fails_alone(server, recordings):
    waveform = recordings[0].waveform()
    stream = Stream(server.http_url, 8, beam_size=4)
    stream.send(waveform[:STEP])
    with pytest.raises(InferenceServerException, match="NaN"):
        stream.send(np.full(100, np.nan))
    stream.parameters = {"beam_size": 5}
    with pytest.raises(InferenceServerException, match="'beam_size' can be chosen with START only"):
        stream.send(waveform[STEP:])
    stream.parameters = {}
    found = stream.send(waveform[STEP:], ends=True)
    expected = Stream(server.http_url, 9, beam_size=4).send_all(waveform, len(waveform))
    assert found["text"] == expected["text"]
    with pytest.raises(
        InferenceServerException, match="session 8 is expired or unknown; send START"
    ):
        stream.send(waveform)
    stream.client.close()


def test_a_client_that_vanishes_leaves_nothing_behind(server, recordings):
    """A START of the same id ends its stream; without one the time-to-live would."""
    waveform = recordings[0].waveform()
    for _ in range(5):
        gone = Stream(server.http_url, 11)
        gone.send(waveform[: 2 * STEP])
        gone.client.close()
    last = Stream(server.http_url, 11)
    last.send(waveform[:STEP], ends=True)
    last.client.close()


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_conchs_own_client(server, two_utterances, scheme):
    url = server.http_url if scheme == "http" else f"grpc://{server.grpc_url}"
    samples = (two_utterances * 32767).astype(np.int16)
    with Client(url) as client, client.live(mode="two_pass", word_timestamps=True) as stream:
        for start in range(0, len(samples), 16_000):
            partial = stream.send(samples[start : start + 16_000])
        final = stream.finish()
    assert not partial.is_final
    assert final.is_final
    assert [segment.passes for segment in final.segments] == [2, 2]
    assert " ".join(word.text for word in final.words) == final.text
    with Client(url) as client, client.live() as stream, pytest.raises(AudioError):
        stream.send(np.zeros((2, 5), np.float32))


def test_two_of_conchs_clients_never_share_a_stream(server, recordings):
    waveform = recordings[0].waveform()

    async def run() -> tuple[str, str]:
        async with AsyncClient(server.http_url) as client:
            one, two = client.live(), client.live()
            await one.send(waveform[:STEP])
            await two.send(waveform[: 3 * STEP])
            with pytest.raises(SessionError):
                await replace_id(two, one).send(waveform)
            finals = await asyncio.gather(
                one.finish(waveform[STEP:]), client.live().finish(waveform)
            )
        return finals[0].text, finals[1].text

    def replace_id(stream, other):
        stream._chunks._id = other._chunks._id
        return stream

    one, alone = asyncio.run(run())
    assert one == alone
