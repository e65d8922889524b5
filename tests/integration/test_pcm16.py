"""Samples sent as PCM16 get the answers of the same samples sent as WAV."""

import json
import urllib.request
from typing import Any

import numpy as np
import pytest
import soundfile
import tritonclient.grpc as grpc
import tritonclient.http as http
from infer_inputs import inputs_of

from conch.client import AsyncClient, Client
from conch.wire.result import Transcript

pytestmark = pytest.mark.server

KINDS = pytest.mark.parametrize("kind", [http, grpc], ids=["http", "grpc"])


@pytest.fixture(scope="module")
def pcm16(speech_wav) -> np.ndarray:
    """Return `speech_wav` as INT16 [samples] at 16 kHz."""
    samples, _ = soundfile.read(speech_wav, dtype="int16")
    return samples


def floats(pcm16: np.ndarray) -> np.ndarray:
    return (pcm16 / 32_768).astype(np.float32)


@pytest.fixture
def infer(server, kind):
    """Send a request by Triton's own client; return texts, scores and words of each row."""
    client = kind.InferenceServerClient(server.http_url if kind is http else server.grpc_url)

    def sent(tensors: dict[str, np.ndarray], **arguments: Any) -> tuple[Any, ...]:
        answer = client.infer("speech", inputs_of(kind, **tensors), **arguments)
        results = [json.loads(text) for text in answer.as_numpy("RESULT").flat]
        return (
            answer.as_numpy("TRANSCRIPTS").tolist(),
            answer.as_numpy("SCORES").tolist(),
            [(item["duration"], item["segments"]) for item in results],
        )

    yield sent
    client.close()


@KINDS
@pytest.mark.parametrize("rate", [16_000, 11_025])
def test_a_recording(infer, kind, pcm16, rate):
    sample_rate = np.array([[rate]], np.int32)
    options = {"parameters": {"nbest": 3, "word_timestamps": True}}
    found = infer({"PCM16": pcm16[np.newaxis], "SAMPLE_RATE": sample_rate}, **options)
    assert found == infer({"WAV": floats(pcm16)[np.newaxis], "SAMPLE_RATE": sample_rate}, **options)
    if rate == 16_000:
        assert b"burning bright in the forest" in found[0][0][0].lower()
        assert len(found[1][0]) == 3


@KINDS
def test_a_batch_of_two_lengths(infer, kind, pcm16):
    lens = np.array([[len(pcm16)], [len(pcm16) // 2]], np.int32)
    # Noise behind WAV_LENS: whoever hears it gets another text.
    noise = np.random.default_rng(1).integers(-9_000, 9_000, len(pcm16))
    rows = np.stack([pcm16, np.where(np.arange(len(pcm16)) < lens[1], pcm16, noise)])
    rows = rows.astype(np.int16)
    found = infer({"PCM16": rows, "WAV_LENS": lens})
    assert found == infer({"WAV": floats(rows), "WAV_LENS": lens})
    first, second = (row[0].lower() for row in found[0])
    assert b"burning bright in the forest" in first
    assert 0 < len(second) < len(first)
    assert found[2][1][0] == pytest.approx(lens[1, 0] / 16_000, abs=1e-3)


@KINDS
def test_a_live_stream(infer, kind, pcm16):
    def answers(name: str, samples: np.ndarray) -> list[tuple[Any, ...]]:
        found, chunk = [], 3_000
        for start in range(0, len(samples), chunk):
            valid = samples[start : start + chunk]
            padded = np.zeros((1, chunk + 500), samples.dtype)
            padded[0, : len(valid)] = valid
            place = {"sequence_start": start == 0, "sequence_end": start + chunk >= len(samples)}
            tensors = {name: padded, "WAV_LENS": np.array([[len(valid)]], np.int32)}
            # Under load some second passes are left out.
            parameters = {"mode": "streaming"} if start == 0 else {}
            found.append(infer(tensors, sequence_id=516, parameters=parameters, **place))
        return found

    found = answers("PCM16", pcm16)
    assert found == answers("WAV", floats(pcm16))
    assert len({str(texts) for texts, _, _ in found}) > 3
    assert b"tiger" in found[-1][0][0]


def same(found: Transcript, wanted: Transcript) -> bool:
    return (found.nbest, found.segments, found.duration) == (
        *(wanted.nbest, wanted.segments),
        wanted.duration,
    )


async def test_the_python_client(server, pcm16):
    lists = []
    with Client(f"grpc://{server.grpc_url}") as client:
        for samples in (pcm16, floats(pcm16)):
            lists.append([client.transcribe(samples), *client.stream(samples)])
            with client.live(mode="streaming") as live:
                lists[-1].append(live.send(samples))
                lists[-1].append(live.finish())
        # In the company of floats, 16-bit samples are sent as floats.
        mixed = client.transcribe_batch([pcm16, floats(pcm16)])
    assert same(*mixed)
    assert all(map(same, *lists))
    assert "burning bright in the forest" in lists[0][0].text.lower()
    async with AsyncClient(server.http_url) as other:
        assert same(await other.transcribe(pcm16), lists[0][0])


def test_server_sent_events(server, pcm16):
    body = {"PCM16": pcm16.tolist(), "SAMPLE_RATE": 16_000}
    request = urllib.request.Request(
        f"http://{server.http_url}/v2/models/speech_stream/generate_stream",
        data=json.dumps(body).encode(),
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        events = response.read().decode().strip().split("\n\n")
    texts = [json.loads(event.removeprefix("data: "))["TRANSCRIPTS"] for event in events]
    assert "burning bright in the forest" in " ".join(texts).lower()
