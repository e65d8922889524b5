"""The CTC components on the real server: the offline road, and streams into the encoder itself."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.http as http
from recordings import wer
from tritonclient.utils import InferenceServerException

from conch.client import Client

pytestmark = pytest.mark.server

ENCODER = "ctc_streaming_encoder"


@pytest.fixture
def client(server):
    with Client(server.http_url) as connected:
        yield connected


def test_the_ctc_decoder_writes_what_was_said(client, recordings):
    rates = []
    for item in recordings:
        answer = client.transcribe(item.path, decoder="ctc")
        assert answer.road == ("vad", "ctc_encoder", "ctc_decoder")
        rates.append(wer(item.text, answer.text))
    assert np.mean(rates) < 0.5


def test_its_words_have_times_and_confidence(client, recordings):
    answer = client.transcribe(recordings[0].path, decoder="ctc", word_timestamps=True)
    assert " ".join(word.text for word in answer.words) == answer.text
    assert all(0 < word.confidence <= 1 for word in answer.words)
    ends = [time for word in answer.words for time in (word.start, word.end)]
    assert ends == sorted(ends)
    assert answer.segments[0].start <= ends[0] <= ends[-1] <= answer.segments[-1].end


def test_its_texts_can_be_rescored(client, recordings):
    answer = client.transcribe(recordings[0].path, decoder="ctc", rescore=True)
    assert answer.road == ("vad", "ctc_encoder", "ctc_decoder", "rescorer")
    assert answer.nbest[0].lm_score < 0


def step(triton, waveform: np.ndarray, stream_id: int | str, start=False, end=False) -> np.ndarray:
    """The log probabilities of one chunk of a stream."""
    tensor = http.InferInput("waveform", [1, len(waveform)], "FP32")
    tensor.set_data_from_numpy(waveform[np.newaxis])
    answer = triton.infer(
        ENCODER, [tensor], sequence_id=stream_id, sequence_start=start, sequence_end=end
    )
    log_probs = answer.as_numpy("log_probs")[0]
    assert answer.as_numpy("log_probs_lens").item() == len(log_probs)
    return log_probs


def streamed(triton, waveform: np.ndarray, stream_id: int | str, samples: int) -> np.ndarray:
    starts = range(0, len(waveform), samples)
    return np.concatenate(
        [
            step(
                triton,
                waveform[start : start + samples],
                stream_id,
                start == 0,
                start + samples >= len(waveform),
            )
            for start in starts
        ]
    )


def test_streams_share_executions_and_keep_their_answers(server, recordings, executions):
    waveforms = [item.waveform() for item in recordings] * 2
    alone = http.InferenceServerClient(server.http_url)
    expected = [streamed(alone, waveform, 1, len(waveform)) for waveform in waveforms]
    requests_before, executions_before = executions(ENCODER)
    together = threading.Barrier(len(waveforms))

    def stream(index: int) -> np.ndarray:
        client = http.InferenceServerClient(server.http_url)
        together.wait(30)
        # Ids of both kinds, and pieces of another length for each.
        stream_id = f"stream {index}" if index % 2 else index + 100
        found = streamed(client, waveforms[index], stream_id, 3_000 + 1_000 * index)
        client.close()
        return found

    with ThreadPoolExecutor(len(waveforms)) as pool:
        answers = list(pool.map(stream, range(len(waveforms))))
    for found, wanted in zip(answers, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-3)
    requests_after, executions_after = executions(ENCODER)
    assert executions_after - executions_before < 0.7 * (requests_after - requests_before)
    alone.close()


def test_a_chunk_of_no_open_stream_is_refused(triton, recordings):
    waveform = recordings[0].waveform()[:5_000]
    with pytest.raises(InferenceServerException, match="must specify the START flag"):
        step(triton, waveform, 4711)
    with pytest.raises(InferenceServerException, match="correlation ID"):
        step(triton, waveform, 0)


def test_a_bad_chunk_leaves_its_stream_open(triton, recordings):
    waveform = recordings[0].waveform()[:20_480]
    expected = streamed(triton, waveform, 5, 10_240)
    first = step(triton, waveform[:10_240], 6, start=True)
    with pytest.raises(InferenceServerException, match="not finite"):
        step(triton, np.full(100, np.nan, np.float32), 6)
    rest = step(triton, waveform[10_240:], 6, end=True)
    np.testing.assert_allclose(np.concatenate([first, rest]), expected, rtol=0, atol=1e-3)
