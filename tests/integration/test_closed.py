"""What a stranger who reaches Triton's ports does not get."""

import queue
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from infer_inputs import inputs_of
from tritonclient.utils import InferenceServerException

from conch.client import Client
from conch.component import Array, bytes_array

pytestmark = pytest.mark.server

SECOND = np.zeros((1, 16_000), np.float32)
FRAMES = np.zeros((1, 2, 4), np.float32)
COUNT = np.array([[2]], np.int32)
TEXTS = bytes_array(["a text"])[np.newaxis]
ENCODED = {"encoder_out": FRAMES, "encoder_out_lens": COUNT}
LOG_PROBS = {"log_probs": FRAMES, "log_probs_lens": COUNT}

COMPONENTS: dict[str, tuple[dict[str, Array], dict[str, Any]]] = {
    "vad": ({"waveform": SECOND}, {}),
    "attention_encoder": ({"waveform": SECOND}, {}),
    "attention_decoder": (ENCODED, {}),
    "ctc_encoder": ({"waveform": SECOND}, {}),
    "ctc_decoder": (LOG_PROBS, {}),
    "ctc_streaming_encoder": (
        {"waveform": SECOND},
        {"sequence_id": 4711, "sequence_start": True, "sequence_end": True},
    ),
    "ctc_streaming_decoder": (
        LOG_PROBS,
        {"sequence_id": 4711, "sequence_start": True, "sequence_end": True},
    ),
    "rescorer": ({"hypotheses": TEXTS}, {}),
    "inverse_normalizer": ({"text": TEXTS}, {}),
    "punctuator": ({"text": TEXTS}, {}),
}


def infer(triton: http.InferenceServerClient, model: str, tensors: dict[str, Array], **more: Any):
    return triton.infer(model, inputs_of(http, **tensors), **more)


@pytest.mark.parametrize("model", COMPONENTS)
def test_a_component_takes_calls_of_speech_alone(triton, model):
    tensors, place = COMPONENTS[model]
    for parameters in ({}, {"component_key": "guessed"}):
        with pytest.raises(InferenceServerException) as refusal:
            infer(triton, model, tensors, **place, parameters=parameters)
        assert refusal.value.status() == "400"
        assert refusal.value.message().startswith(
            "INVALID_REQUEST: components take calls of speech"
        )


def test_starts_of_strangers_take_no_place_from_honest_streams(server, waveform):
    num_starts = 600
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    inputs = inputs_of(grpc, **LOG_PROBS)
    with grpc.InferenceServerClient(server.grpc_url) as stranger:
        for number in range(num_starts):
            stranger.async_infer(
                "ctc_streaming_decoder",
                inputs,
                lambda result, error: answers.put(error),
                sequence_id=10_000 + number,
                sequence_start=True,
            )
        with Client(server.http_url) as client, client.live(mode="streaming") as stream:
            heard = stream.send(waveform)
            assert "ctc_streaming_decoder" in heard.path
            assert stream.finish().text
        for _ in range(num_starts):
            assert "components take calls of speech" in str(answers.get(timeout=60))


@pytest.mark.parametrize(("rows", "is_taken"), [(64, True), (65, False)])
def test_a_request_has_so_many_rows_at_most(triton, rows, is_taken):
    clicks = {"WAV": np.full((rows, 160), 0.1, np.float32)}
    if is_taken:
        answer = infer(triton, "speech", clicks)
        assert answer.as_numpy("TRANSCRIPTS").shape == (64, 1)
        return
    with pytest.raises(InferenceServerException, match="must be <= 64 for 'speech'"):
        infer(triton, "speech", clicks)
