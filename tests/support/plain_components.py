"""Components made of plain functions: what the roads are tested with, without a server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from conch.component import bytes_array
from conch.errors import ComponentError
from conch.segmentation import FRAME_SAMPLES


class HostTensor:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def numpy(self) -> np.ndarray:
        return self.array


class PlainComponents:
    """Speech is any frame that is not silent; a segment's text is its first sample."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.parameters: list[Mapping[str, Any]] = []
        self.timeouts_s: list[float | None] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.before: Callable[[str], Any] = lambda model: asyncio.sleep(0)
        self.failing: str | None = None

    async def call(
        self,
        model: str,
        inputs: Mapping[str, Any],
        wanted: Sequence[str],
        parameters: Mapping[str, Any],
        timeout_s: float | None,
    ) -> Mapping[str, HostTensor]:
        self.calls.append(model)
        self.parameters.append(parameters)
        self.timeouts_s.append(timeout_s)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self.before(model)
        finally:
            self.in_flight -= 1
        if model == self.failing:
            raise ComponentError(f"{model}: out of order")
        arrays = {
            name: value.numpy() if isinstance(value, HostTensor) else value
            for name, value in inputs.items()
        }
        outputs = getattr(self, model)(arrays, parameters)
        return {name: HostTensor(outputs[name]) for name in wanted}

    def vad(self, inputs: Mapping[str, np.ndarray], parameters: Mapping[str, Any]) -> Any:
        frames = inputs["waveform"][: len(inputs["waveform"]) // FRAME_SAMPLES * FRAME_SAMPLES]
        speech = np.abs(frames).reshape(-1, FRAME_SAMPLES).max(axis=1) > 0
        state = inputs.get("state", np.zeros(1, np.float32)) + 1
        return {"speech_probs": speech.astype(np.float32), "state": state}

    def attention_encoder(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        waveform = inputs["waveform"]
        loudest = waveform[np.argmax(np.abs(waveform))]
        return {
            "encoder_out": np.full((2, 2), loudest, np.float32),
            "encoder_out_lens": np.array([2], np.int32),
        }

    def attention_decoder(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        if "text" in inputs:
            words = inputs["text"][0].split()
            times = np.arange(len(words), dtype=np.float32)
            return {
                "words": np.array(words, dtype=object),
                "word_starts": times,
                "word_ends": times + 1,
                "word_confidences": np.full(len(words), 0.5, np.float32),
            }
        text = f"spoken {inputs['encoder_out'][0, 0]:.2f}"
        nbest = parameters["nbest"]
        return {
            "hypotheses": bytes_array([f"{text} {rank}" for rank in range(nbest)]),
            "scores": -np.arange(1, nbest + 1, dtype=np.float32),
        }

    def ctc_encoder(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        encoded = self.attention_encoder(inputs, parameters)
        return {
            "log_probs": encoded["encoder_out"],
            "log_probs_lens": encoded["encoder_out_lens"],
        }

    def ctc_decoder(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        text = f"heard {inputs['log_probs'][0, 0]:.2f}"
        return {
            "hypotheses": bytes_array([text]),
            "scores": np.array([-1], np.float32),
            "num_words": np.array([2], np.int32),
            **self.attention_decoder({"text": bytes_array([text])}, parameters),
        }

    def rescorer(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        """Likes the last hypothesis best."""
        count = len(inputs["hypotheses"])
        return {
            "lm_scores": np.arange(-count, 0, dtype=np.float32) * 10,
            "num_words": np.full(count, 3, np.int32),
        }
