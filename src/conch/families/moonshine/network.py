"""Moonshine's graphs at work: a waveform to hidden states, and the steps of a decoder."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime
from onnxruntime import OrtValue

from conch.component.arrays import FloatArray, IntArray
from conch.component.onnx import open_network, session_options

FRAME_SAMPLES = 384
"""Samples from one hidden state to the next: 24 ms."""
LEAST_SAMPLES = 1600
"""Shortest waveform: a shorter one is filled with zeros. Of 895 samples there is a first frame."""


class Advance(NamedTuple):
    """What a step says of each hypothesis."""

    best_log_probs: FloatArray
    """float32 `[rows, tokens, best]`, natural logarithms, the best first."""
    best_ids: IntArray
    """int64 `[rows, tokens, best]`."""
    target_log_probs: FloatArray
    """float32 `[rows, tokens]`: those of the tokens that were asked about."""
    attention: FloatArray
    """float32 `[rows, tokens, frames]`: mean cross-attention of the upper layers."""


class MoonshineEncoder:
    def __init__(self, folder: Path, threads: int) -> None:
        self._session = _opened(folder / "encoder.onnx", threads)
        # The activations of a long segment take 100 MB, which would be kept for the next one.
        self._once = onnxruntime.RunOptions()
        self._once.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")

    def __call__(self, waveform: FloatArray) -> FloatArray:
        """Return hidden states float32 `[frames, size]` of float32 `[samples]`, 16 kHz."""
        filled = np.pad(waveform, (0, max(0, LEAST_SAMPLES - len(waveform))))
        [hidden] = self._session.run(None, {"waveform": filled[None]}, self._once)
        found: FloatArray = hidden[0]
        return found


class MoonshineDecoder:
    """The decoder: `begin` makes a `Hypotheses` of a segment."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._cross = _opened(folder / "cross.onnx", threads)
        self.step = _opened(folder / "step.onnx", threads)
        shapes = {item.name: item.shape for item in self.step.get_inputs()}
        self.past_names = [name for name in shapes if name.startswith("past_")]
        self.present_names = [name.removeprefix("past_") for name in self.past_names]
        _, self.num_heads, _, self.head_size = shapes[self.past_names[0]]
        self.size = self.num_heads * self.head_size
        self._cross_names = [item.name for item in self._cross.get_outputs()]

    def begin(self, hidden: FloatArray) -> "Hypotheses":
        """Return one hypothesis without tokens, of hidden states float32 `[frames, size]`."""
        inputs = {"hidden": OrtValue.ortvalue_from_numpy(np.ascontiguousarray(hidden[None]))}
        outputs = self._cross.run_with_ort_values(self._cross_names, inputs)
        return Hypotheses(self, dict(zip(self._cross_names, outputs, strict=True)))


class Hypotheses:
    """The hypotheses of one segment, which grow token by token inside ONNX Runtime."""

    def __init__(self, decoder: MoonshineDecoder, cross: dict[str, OrtValue]) -> None:
        self._decoder, self._cross = decoder, cross
        self._num_tokens = 0
        empty = np.zeros((1, decoder.num_heads, 0, decoder.head_size), np.float32)
        self._past = {name: OrtValue.ortvalue_from_numpy(empty) for name in decoder.past_names}

    def advance(
        self,
        ids: Sequence[Sequence[int]],
        parents: Sequence[int],
        num_best: int = 1,
        targets: Sequence[Sequence[int]] | None = None,
    ) -> Advance:
        """Add tokens to hypotheses, which replace those of the step before.

        `ids` are as many tokens of each hypothesis, `parents` those of the step before that they go
        on from. The log probability of each of `targets`, by default of `ids`, is returned after
        each of `ids`.
        """
        tokens = np.array(ids, np.int64)
        given = {
            "ids": tokens,
            "parents": np.array(parents, np.int64),
            "position": np.array([self._num_tokens], np.int64),
            "num_best": np.array([num_best], np.int64),
            "targets": tokens if targets is None else np.array(targets, np.int64),
        }
        values = {name: OrtValue.ortvalue_from_numpy(value) for name, value in given.items()}
        decoder = self._decoder
        found = decoder.step.run_with_ort_values(
            [*_FOUND, *decoder.present_names], values | self._cross | self._past
        )
        self._past = dict(zip(decoder.past_names, found[len(_FOUND) :], strict=True))
        self._num_tokens += tokens.shape[1]
        best, best_ids, wanted, attention = (item.numpy() for item in found[: len(_FOUND)])
        return Advance(best, best_ids, wanted, attention.reshape(*tokens.shape, -1))

    def keep(self, num_tokens: int) -> None:
        """Take back all tokens but the first ones; the start of the text counts as one."""
        self._num_tokens = num_tokens
        self._past = {
            name: OrtValue.ortvalue_from_numpy(value.numpy()[:, :, :num_tokens])
            for name, value in self._past.items()
        }


_FOUND = ("best_log_probs", "best_ids", "target_log_probs", "attention")


def _opened(path: Path, threads: int) -> onnxruntime.InferenceSession:
    return open_network("graph of Moonshine", path, session_options(threads, keeps_memory=False))
