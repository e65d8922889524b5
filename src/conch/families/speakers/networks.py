"""The calls of both components."""

from collections.abc import Sequence

import numpy as np

from conch.bls.calls import Calls
from conch.component.arrays import Array, FloatArray
from conch.families.speakers.clustering import unit
from conch.families.speakers.declaration import EMBEDDING, SEGMENTATION, SETS
from conch.families.speakers.pieces import Span


async def active_in(calls: Calls, waveform: FloatArray, windows: Sequence[Span]) -> Array:
    """Return which own speakers speak in windows of one length, bool `[windows, frames, 3]`."""
    found = await calls(SEGMENTATION.name, _inputs(waveform, windows), ("log_probs",))
    active: Array = np.array(SETS, bool)[found["log_probs"].numpy().argmax(axis=-1)]
    return active


async def embedded(
    calls: Calls, waveform: FloatArray, spans: Sequence[Span], *, is_line: bool
) -> FloatArray:
    """Return how pieces of a waveform sound, of unit length, float32 `[pieces, size]`."""
    parameters = {"narrow_band": is_line}
    found = await calls(EMBEDDING.name, _inputs(waveform, spans), ("embeddings",), parameters)
    return unit(found["embeddings"].numpy())


def _inputs(waveform: FloatArray, spans: Sequence[Span]) -> dict[str, Array]:
    starts, ends = np.array(spans, np.int32).T
    return {"waveform": waveform, "starts": starts, "ends": ends}
