"""The encoder of an export on ONNX Runtime: whole recordings, or chunks with states."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime

from conch.catalogue.encoders import Encoder
from conch.catalogue.onnx_header import INT32, INT64
from conch.component.arrays import Array, FloatArray
from conch.component.onnx import open_network, session_options

PADDING = float(np.log(np.float32(1e-10)))
"""A feature behind the end of a recording, as sherpa-onnx pads a batch."""
_TYPES = {INT32: np.int32, INT64: np.int64}


@dataclass(frozen=True, slots=True)
class States:
    """What an encoder keeps of one stream: a row of the states of a batch."""

    arrays: tuple[Array, ...]
    axes: tuple[int, ...]
    """The axis of the rows in each array."""
    row: int

    def alone(self) -> "States":
        """Return a copy without the rest of the batch, which would stay in memory with it."""
        pairs = zip(self.arrays, self.axes, strict=True)
        return States(tuple(np.take(item, [self.row], axis) for item, axis in pairs), self.axes, 0)


def joined(states: Sequence[States]) -> tuple[Array, ...]:
    """Return the states of several streams as one batch; of those of a whole batch no copy."""
    first = states[0]
    is_whole = first.arrays[0].shape[first.axes[0]] == len(states)
    if is_whole and all(
        item.arrays is first.arrays and item.row == row for row, item in enumerate(states)
    ):
        return first.arrays
    return tuple(
        np.concatenate([np.take(item.arrays[place], [item.row], axis) for item in states], axis)
        for place, axis in enumerate(first.axes)
    )


class EncoderGraph:
    """Runs an encoder."""

    def __init__(self, encoder: Encoder, what: str, threads: int) -> None:
        """Load it; `what` names it in errors.

        Raises:
            ConfigError: it cannot be loaded.
        """
        self.encoder = encoder
        options = session_options(threads, keeps_memory=False)
        self._session = open_network(what, encoder.path, options)
        header = encoder.header
        self._inputs = [item.name for item in header.inputs]
        self._lens_kind = _TYPES.get(header.inputs[1].kind, np.int64)
        # A product of int8 depends on all rows of a batch, and equal requests must get equal
        # answers.
        self.is_one_by_one = header.is_int8 or not encoder.takes_batches
        # The activations of a long segment would be kept for the next one.
        self._once = onnxruntime.RunOptions()
        self._once.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")

    def new_states(self) -> States:
        """Return the states of a new stream."""
        states = self.encoder.states
        arrays = (np.zeros(item.shape, _TYPES.get(item.kind, np.float32)) for item in states)
        return States(tuple(arrays), tuple(item.axis for item in states), 0)

    def step(
        self, chunks: Sequence[FloatArray], states: Sequence[States]
    ) -> tuple[list[FloatArray], list[States]]:
        """Return what the encoder hears in the next chunk of each stream, and the new states.

        Args:
            chunks: Features of each, float32 `[chunk, num_mels]`.
            states: Of each, after its last chunk.

        Returns:
            For each stream float32 `[frames, size]`, and its states.
        """
        if self.is_one_by_one and len(chunks) > 1:
            pairs = zip(chunks, states, strict=True)
            single = [self.step([chunk], [state]) for chunk, state in pairs]
            return [out for (out,), _ in single], [state for _, (state,) in single]
        before = joined(states)
        feed = dict(zip(self._inputs, (np.stack(chunks), *before), strict=True))
        out, *new = self._session.run(None, feed)
        kept = iter(new)
        after = tuple(
            array + self.encoder.shift if state.is_counter else next(kept)
            for state, array in zip(self.encoder.states, before, strict=True)
        )
        return [*out], [States(after, states[0].axes, row) for row in range(len(states))]

    def encode(self, features: Sequence[FloatArray]) -> list[FloatArray]:
        """Return what the encoder of recordings hears, as one batch.

        Args:
            features: Of each recording, float32 `[frames, num_mels]`.

        Returns:
            For each float32 `[frames / 4, size]`, about.
        """
        if self.is_one_by_one and len(features) > 1:
            return [out for item in features for out in self.encode([item])]
        lens = [len(item) for item in features]
        x = np.full((len(features), max(lens), self.encoder.num_mels), PADDING, np.float32)
        for row, item in enumerate(features):
            x[row, : len(item)] = item
        feed = dict(zip(self._inputs, (x, np.array(lens, self._lens_kind)), strict=True))
        out, out_lens, *_ = self._session.run(None, feed, self._once)
        return [row[:length] for row, length in zip(out, out_lens, strict=True)]
