"""The shapes of the output tensors, over both protocols and with every kind of request."""

import json
import queue
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from infer_inputs import inputs_of

pytestmark = pytest.mark.server

OUTPUTS = ("TRANSCRIPTS", "SCORES", "RESULT")


@pytest.fixture(params=[http, grpc], ids=["http", "grpc"])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def client(server: Any, kind: Any) -> Any:
    client = kind.InferenceServerClient(server.http_url if kind is http else server.grpc_url)
    yield client
    client.close()


def wav(kind: Any, waveform: np.ndarray, rows: int) -> list[Any]:
    return inputs_of(kind, WAV=np.tile(waveform, (rows, 1)))


def shapes(answer: Any) -> list[tuple[int, ...]]:
    """Return the shapes of all outputs, which the answer must have told as they are."""
    response = answer.get_response()
    told = response["outputs"] if isinstance(response, dict) else response.outputs
    arrays = {name: answer.as_numpy(name) for name in OUTPUTS}
    for output in told:
        name, shape = (
            (output["name"], output["shape"])
            if isinstance(output, dict)
            else (output.name, output.shape)
        )
        assert arrays[name].shape == tuple(shape)
    return [arrays[name].shape for name in OUTPUTS]


@pytest.mark.parametrize("rows", [1, 3])
def test_a_recording_has_a_batch_dimension(client, kind, waveform, rows):
    answer = client.infer("speech", wav(kind, waveform, rows), parameters={"nbest": 2})
    assert shapes(answer) == [(rows, 2), (rows, 2), (rows, 1)]
    result = json.loads(answer.as_numpy("RESULT").flat[0])
    assert answer.as_numpy("TRANSCRIPTS").flat[0].decode() == result["text"]


@pytest.mark.parametrize("mode", ["streaming", "two_pass"])
def test_a_live_chunk_has_none(client, kind, waveform, mode):
    for part in range(2):
        answer = client.infer(
            "speech",
            wav(kind, waveform, 1),
            parameters={"mode": mode, "nbest": 2} if part == 0 else {},
            sequence_id=81,
            sequence_start=part == 0,
            sequence_end=part == 1,
        )
        result = json.loads(answer.as_numpy("RESULT").flat[0])
        num_texts = len(result["nbest"]) if result["is_final"] else 1
        assert shapes(answer) == [(num_texts,), (num_texts,), (1,)]
        assert answer.as_numpy("TRANSCRIPTS").flat[0].decode() == result["text"]
    assert mode == "streaming" or num_texts == 2


def test_a_segment_of_a_streamed_recording_has_a_batch_dimension(server, waveform):
    client = grpc.InferenceServerClient(server.grpc_url)
    answers: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    client.async_stream_infer("speech_stream", wav(grpc, waveform, 1), parameters={"nbest": 2})
    while True:
        answer, error = answers.get(timeout=60)
        assert error is None, error
        num_texts = answer.as_numpy("TRANSCRIPTS").shape[1]
        assert shapes(answer) == [(1, num_texts), (1, num_texts), (1, 1)]
        if not json.loads(answer.as_numpy("RESULT").flat[0])["segments"]:
            break
    client.stop_stream()
    client.close()
