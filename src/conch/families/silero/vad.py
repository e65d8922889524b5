"""Silero VAD (https://github.com/snakers4/silero-vad): a speech probability every 32 ms."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from conch.component import VAD_FRAME_SAMPLES, VAD_STATE_SIZE, FloatArray, Outputs, Row, RowByRow
from conch.component.onnx import open_network
from conch.families.silero import PACKAGE
from conch.packaged import packaged
from conch.wire.errors import ConfigError, InvalidRequestError
from conch.wire.limits import MAX_STEP_S

CONTEXT = 64
"""Samples before a frame that the network also takes."""
HIDDEN = 128
PACKAGED = "silero_vad_16k_sequence.onnx"
PACKAGED_SHA256 = "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85"
"""sha256 of the model in silero-vad 6.2.3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SileroConfig:
    model: str = ""
    intra_threads: int = 1  # the network is too small for more
    block_frames: int = 512


class SileroVad(RowByRow):
    """The `vad` component: a function of the samples and of the state that the caller keeps."""

    def __init__(self, config: SileroConfig) -> None:
        path = model_path(config.model)
        self._session = open_network("the VAD model", path, config.intra_threads)
        names = {item.name for item in self._session.get_inputs()}
        if names != {"input", "h", "c"}:
            raise ConfigError(
                f"{path} is not {PACKAGED}: it takes {sorted(names)} in place of input, h and c"
            )
        self._block = config.block_frames

    def answer(self, row: Row, /) -> Outputs:
        state = row.inputs.get("state", np.zeros(VAD_STATE_SIZE, dtype=np.float32))
        if state.size != VAD_STATE_SIZE:
            raise InvalidRequestError(
                f"input 'state' must be what the last call returned, {VAD_STATE_SIZE} values; "
                f"sent: {state.size}"
            )
        probs, state = self.speech_probs(row.waveform(MAX_STEP_S), state.ravel())
        return {"speech_probs": probs, "state": state}

    def speech_probs(
        self, waveform: FloatArray, state: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the speech probability of each frame, and the state after the last.

        `waveform` is float32 `[samples]`, 16 kHz, whose last frame is padded with zeros. `state` is
        float32 `[320]`, zeros at the start of an audio. Probabilities are float32 `[ceil(samples /
        512)]` in [0, 1].
        """
        h, c = state[: 2 * HIDDEN].reshape(2, 1, 1, HIDDEN)
        context = state[2 * HIDDEN :]
        probs = [np.zeros(0, dtype=np.float32)]
        for start in range(0, len(waveform), self._block * VAD_FRAME_SAMPLES):
            block = waveform[start : start + self._block * VAD_FRAME_SAMPLES]
            padded = np.concatenate(
                [context, block, np.zeros(-len(block) % VAD_FRAME_SAMPLES, np.float32)]
            )
            frames = sliding_window_view(padded, CONTEXT + VAD_FRAME_SAMPLES)[::VAD_FRAME_SAMPLES]
            feed = {"input": np.ascontiguousarray(frames), "h": h, "c": c}
            block_probs, h, c = self._session.run(["speech_probs", "hn", "cn"], feed)
            probs.append(block_probs)
            context = padded[-CONTEXT:]
        return np.concatenate(probs), np.concatenate([h.ravel(), c.ravel(), context])


def model_path(model: str) -> Path:
    """Return the path of the model file; `model` is empty for that of the package silero-vad."""
    if model:
        return Path(model)
    return packaged(PACKAGE, "data", {PACKAGED: PACKAGED_SHA256}) / PACKAGED
