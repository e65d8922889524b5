"""Live streams on the real server, over HTTP and gRPC."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from infer_inputs import inputs_of
from known_models import skip_without
from live import Chunks
from recordings import in_turn
from threadpoolctl import threadpool_limits
from tritonclient.utils import InferenceServerException

from conch.client import AsyncClient, Client
from conch.component import Row
from conch.decoding.streaming_decoder import StreamingDecoder
from conch.families.ctc.decoder import CtcDecoder, CtcStreamingDecoderConfig
from conch.families.ctc.encoder import CtcStreamingEncoder, CtcStreamingEncoderConfig
from conch.families.turns import MODEL as END_OF_TURN
from conch.wire.errors import AudioError, SessionError

pytestmark = pytest.mark.server

STEP = 10_240
CHILDREN = ("ctc_streaming_encoder", "ctc_streaming_decoder")


@pytest.fixture(scope="module")
def two_utterances(recordings) -> np.ndarray:
    return in_turn(recordings[:2], 2)


@pytest.mark.parametrize("kind", [http, grpc], ids=["http", "grpc"])
@pytest.mark.parametrize("stream_id", [77, "a string"])
def test_a_stream(server, two_utterances, kind, stream_id):
    url = server.http_url if kind is http else server.grpc_url
    # In mode two_pass, second passes correct what was stable.
    stream = Chunks(url, stream_id, kind, mode="streaming")
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


def test_a_stream_without_vad_makes_a_call_less(server, two_utterances):
    stream = Chunks(server.http_url, 78, vad=False)
    stream.send(two_utterances)
    final = stream.send(two_utterances[:0], ends=True, zeros=800)
    # Behind them the passes of Whisper that have ended with this answer.
    assert final["path"][: len(CHILDREN)] == list(CHILDREN)
    assert "vad" not in final["path"]
    assert [segment["endpoint"] for segment in final["segments"]] == ["silence", "silence"]
    expected = Chunks(server.http_url, 79).send_all(two_utterances, STEP)
    assert final["text"] == expected["text"]
    for found, wanted in zip(final["segments"], expected["segments"], strict=True):
        assert found["start"] == pytest.approx(wanted["start"], abs=0.5)
        assert found["end"] == pytest.approx(wanted["end"], abs=0.7)


@pytest.mark.parametrize("kind", [http, grpc], ids=["http", "grpc"])
def test_streaming_clients_of_the_ecosystem_work_unchanged(server, recordings, kind):
    """As the client for WeNet, sherpa and FunASR does: TRANSCRIPTS alone, its rows joined."""
    waveform, chunk = recordings[0].waveform(), 8_000
    triton = kind.InferenceServerClient(server.http_url if kind is http else server.grpc_url)
    for start in range(0, len(waveform), chunk):
        valid = waveform[start : start + chunk]
        padded = np.zeros((1, chunk), np.float32)
        padded[0, : len(valid)] = valid
        inputs = inputs_of(kind, WAV=padded, WAV_LENS=np.array([[len(valid)]], np.int32))
        answer = triton.infer(
            "speech",
            inputs,
            outputs=[kind.InferRequestedOutput("TRANSCRIPTS")],
            sequence_id=10086,
            sequence_start=start == 0,
            sequence_end=start + chunk >= len(waveform),
        )
        text = b" ".join(answer.as_numpy("TRANSCRIPTS")).decode()
    triton.close()
    assert text == Chunks(server.http_url, 1).send_all(waveform, len(waveform))["text"] != ""


def test_streams_share_executions_and_each_equals_its_own_single_run(
    server, recordings, executions
):
    waveforms = [item.waveform()[: 4 * 16_000] for item in recordings]
    waveforms += [waveform[::-1] for waveform in waveforms[:2]]
    expected = [
        Chunks(server.http_url, 1, mode="streaming").send_all(waveform, len(waveform))
        for waveform in waveforms
    ]
    before = {model: executions(model) for model in ("vad", *CHILDREN)}
    together = threading.Barrier(len(waveforms))

    def run(index: int) -> dict:
        # Under load some second passes are left out.
        stream = Chunks(server.http_url, 100 + index, mode="streaming")
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


def test_a_stream_says_what_its_components_say(server, recordings):
    """The encoder and the search of the server's configs, called here step by step."""
    waveform = recordings[1].waveform()
    encoder = CtcStreamingEncoder(CtcStreamingEncoderConfig())
    decoder = StreamingDecoder(CtcDecoder(CtcStreamingDecoderConfig()), 90.0)
    # As in the server: with more threads a last bit of the features differs, and int8 rounds it up.
    with threadpool_limits(1, "blas"):
        for start in range(0, len(waveform), STEP):
            place = {"stream_id": 1, "starts": start == 0, "ends": start + STEP >= len(waveform)}
            (encoded,) = encoder([Row({"waveform": waveform[start : start + STEP]}, {}, **place)])
            (found,) = decoder([Row(encoded, {"decoder": "wfst"}, **place)])
    encoder.close()
    decoder.close()
    final = Chunks(server.http_url, 1, endpointing=False).send_all(waveform, len(waveform))
    assert final["text"] == found["hypotheses"][0].decode()
    assert final["nbest"][0]["score"] == pytest.approx(found["scores"][0], abs=1e-2)


def test_chunks_that_wait_for_no_answer_are_heard_in_order(server, recordings):
    waveform = recordings[0].waveform()
    pieces = [waveform[start : start + 3_000] for start in range(0, len(waveform), 3_000)]
    answers = Chunks(server.grpc_url, 21, grpc).send_unwaited(pieces)
    durations = [answer["duration"] for answer in answers]
    assert durations == sorted(durations)
    assert [answer["is_final"] for answer in answers] == [False] * (len(pieces) - 1) + [True]
    whole = Chunks(server.http_url, 22).send_all(waveform, len(waveform))
    assert answers[-1]["text"] == whole["text"]


def test_two_passes(server, two_utterances):
    streaming = Chunks(server.http_url, 5, mode="streaming").send_all(two_utterances, STEP)
    final = Chunks(server.http_url, 6).send_all(two_utterances, STEP)
    assert [segment["passes"] for segment in final["segments"]] == [2, 2]
    assert final["text"] != streaming["text"]
    assert "nobody" in final["text"].lower()


def test_options_hold_for_a_stream_and_a_bad_chunk_fails_alone(server, recordings):
    waveform = recordings[0].waveform()
    stream = Chunks(server.http_url, 8, beam_size=4)
    stream.send(waveform[:STEP])
    with pytest.raises(InferenceServerException, match="NaN"):
        stream.send(np.full(100, np.nan))
    stream.parameters = {"beam_size": 5}
    with pytest.raises(InferenceServerException, match="'beam_size' can be chosen with START only"):
        stream.send(waveform[STEP:])
    stream.parameters = {}
    found = stream.send(waveform[STEP:], ends=True)
    expected = Chunks(server.http_url, 9, beam_size=4).send_all(waveform, len(waveform))
    assert found["text"] == expected["text"]
    with pytest.raises(
        InferenceServerException, match="session 8 is expired or unknown; send START"
    ):
        stream.send(waveform)
    stream.client.close()


def test_a_chunk_of_another_rate_and_an_end_without_a_start_fail_alone(server, recordings):
    waveform = recordings[0].waveform()
    stream = Chunks(server.http_url, 31)
    stream.send(waveform[:STEP])
    with pytest.raises(InferenceServerException, match="SAMPLE_RATE can be chosen with START only"):
        stream.send(waveform[STEP:], sample_rate=8_000)
    unknown = Chunks(server.http_url, 32)
    unknown.is_new = False
    with pytest.raises(InferenceServerException, match="session 32 is expired or unknown"):
        unknown.send(waveform, ends=True)
    found = stream.send(waveform[STEP:], ends=True)
    whole = Chunks(server.http_url, 33).send_all(waveform, len(waveform))
    assert found["text"] == whole["text"]


def test_a_client_that_vanishes_leaves_nothing_behind(server, recordings):
    """A START of the same id ends its stream; without one the time-to-live would."""
    waveform = recordings[0].waveform()
    for _ in range(5):
        gone = Chunks(server.http_url, 11)
        gone.send(waveform[: 2 * STEP])
        gone.client.close()
    last = Chunks(server.http_url, 11)
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


async def test_two_of_conchs_clients_never_share_a_stream(server, recordings):
    waveform = recordings[0].waveform()

    def replace_id(stream, other):
        stream._stream._id = other._stream._id
        return stream

    async with AsyncClient(server.http_url) as client:
        one, two = client.live(), client.live(resume_s=0)
        await one.send(waveform[:STEP])
        await two.send(waveform[: 3 * STEP])
        with pytest.raises(SessionError):
            await replace_id(two, one).send(waveform)
        finals = await asyncio.gather(one.finish(waveform[STEP:]), client.live().finish(waveform))
    one, alone = finals[0].text, finals[1].text
    assert one == alone


def test_a_pause_in_mid_sentence_ends_nothing_where_a_model_hears_it(server, recordings):
    """Silence of 300 ms cuts there, and the end comes long before the silence that is asked for."""
    skip_without(END_OF_TURN)
    (sentence,) = (item for item in recordings if item.path.name == "kokoro_0_01532.ogg")
    waveform = sentence.waveform()
    within = round(2.64 * 16_000)
    pause = np.zeros(16_000, np.float32)
    spoken = np.concatenate([waveform[:within], pause, waveform[within:], pause, pause])

    def utterances(**options: Any) -> list[str]:
        with Client(server.http_url) as client, client.live(mode="streaming", **options) as stream:
            return [item.endpoint for item in stream.send(spoken).segments]

    # The model's answers are awaited.
    asked = {"semantic_endpointing": True, "adaptive": False, "endpoint_silence_ms": 5000}
    assert utterances(**asked) == ["silence"]
    assert utterances(endpoint_silence_ms=300) == ["silence", "silence"]
