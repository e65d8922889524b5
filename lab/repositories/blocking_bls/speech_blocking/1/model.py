from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray

from conch.audio.segmentation import Segmenter, segment_rules
from conch.wire.options import RecognitionOptions


class TritonPythonModel:
    """Entry point that blocks: on every component call, and on every request."""

    def initialize(self, args: dict[str, str]) -> None:
        self.options = RecognitionOptions()
        self.rules = segment_rules(self.options)
        self.decoding = {
            "beam_size": self.options.beam_size,
            "nbest": self.options.nbest,
            "language": self.options.language,
        }

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self.answer(request) for request in requests]

    def answer(self, request: Any) -> Any:
        waveform = pb_utils.get_input_tensor_by_name(request, "WAV").as_numpy()[0]
        try:
            texts = [self.text(segment) for segment in self.segments(waveform)]
        except pb_utils.TritonModelException as error:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
        text = " ".join(text for text in texts if text)
        transcripts = np.array([[text.encode()]], dtype=np.object_)
        return pb_utils.InferenceResponse([pb_utils.Tensor("TRANSCRIPTS", transcripts)])

    def segments(self, waveform: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        # The same inputs as from `speech`, so that the components do the same work.
        speech_probs, _ = call(
            "vad", [pb_utils.Tensor("waveform", waveform[np.newaxis])], ["speech_probs", "state"]
        )
        segmenter = Segmenter(self.rules)
        spans = segmenter.push(speech_probs.as_numpy()[0])
        spans += segmenter.flush(len(waveform))
        return [waveform[span.start : span.end] for span in spans]

    def text(self, segment: NDArray[np.float32]) -> str:
        encoded = call(
            "attention_encoder",
            [pb_utils.Tensor("waveform", np.ascontiguousarray(segment)[np.newaxis])],
            ["encoder_out", "encoder_out_lens"],
        )
        hypotheses, _ = call("attention_decoder", encoded, ["hypotheses", "scores"], self.decoding)
        return str(hypotheses.as_numpy()[0][0].decode())


def call(
    model: str,
    inputs: Sequence[Any],
    wanted: Sequence[str],
    parameters: Mapping[str, Any] | None = None,
) -> list[Any]:
    request = pb_utils.InferenceRequest(
        model_name=model,
        inputs=inputs,
        requested_output_names=wanted,
        parameters=parameters or {},
    )
    response = request.exec()
    if response.has_error():
        raise pb_utils.TritonModelException(f"{model}: {response.error().message()}")
    return [pb_utils.get_output_tensor_by_name(response, name) for name in wanted]
