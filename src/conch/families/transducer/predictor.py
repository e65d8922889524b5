"""What a transducer expects after the units so far: the networks that are called the decoder."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from conch.catalogue.onnx_header import INT32
from conch.component.arrays import FloatArray
from conch.families.transducer.folder import Lstm, Transducer
from conch.families.transducer.graphs import opened_part

_CONTEXTS = 8192
"""Contexts whose output is kept: 16 MB for 512 values. Speech has few of the possible pairs."""

Context = Any
"""What a predictor knows of the units so far. Only the predictor looks into it."""


class Predictor(Protocol):
    """Reads the units that were written."""

    start: Context
    """The context before the first unit."""
    size: int
    """Units in a context; 0 if it has all."""

    def after(self, context: Context, unit: int, /) -> Context:
        """Return a context with a further unit."""
        ...

    def predicted(self, contexts: Sequence[Context], /) -> FloatArray:
        """Return what the joiner reads of each context, float32 `[N, size]`."""
        ...


def predictor_of(found: Transducer, threads: int) -> Predictor:
    if found.lstm:
        return LstmPredictor(found, found.lstm, threads)
    return LastUnitsPredictor(found, threads)


class LastUnitsPredictor:
    """Reads the last units alone, as those of icefall do; -1 is before the first."""

    def __init__(self, found: Transducer, threads: int) -> None:
        self._network = opened_part(found, "decoder", threads)
        (self._input,) = (item.name for item in self._network.get_inputs())
        self._kind = np.int32 if found.headers["decoder"].inputs[0].kind == INT32 else np.int64
        self._kept: OrderedDict[tuple[int, ...], FloatArray] = OrderedDict()
        self.size = found.context_size
        self.start = (*[-1] * (self.size - 1), found.blank)

    def after(self, context: tuple[int, ...], unit: int) -> tuple[int, ...]:
        return (*context[1:], unit)

    def predicted(self, contexts: Sequence[tuple[int, ...]]) -> FloatArray:
        missing = [item for item in dict.fromkeys(contexts) if item not in self._kept]
        # One by one where it is int8; a matter of microseconds anyway.
        for context in missing:
            feed = {self._input: np.array([context], self._kind)}
            (found,) = self._network.run(None, feed)
            self._kept[context] = found.reshape(-1)
        rows = np.stack([self._kept[item] for item in contexts])
        while len(self._kept) > _CONTEXTS:
            self._kept.popitem(last=False)
        return rows


@dataclass(slots=True, eq=False)
class _Read:
    """All units so far, which are read when somebody asks what follows."""

    unit: int
    before: "_Read | None"
    """All units but the last; None once they are read."""
    states: tuple[FloatArray, FloatArray]
    """States of the network after the last unit, each `[layers, hidden]`, once it is read."""
    output: FloatArray | None = None


class LstmPredictor:
    """Reads every unit once, and keeps states, as those of NeMo do."""

    size = 0

    def __init__(self, found: Transducer, lstm: Lstm, threads: int) -> None:
        self._network = opened_part(found, "decoder", threads)
        self._inputs = [item.name for item in self._network.get_inputs()]
        header = found.headers["decoder"]
        kinds = (np.int32 if item.kind == INT32 else np.int64 for item in header.inputs[:2])
        self._kinds = tuple(kinds)
        zeros = np.zeros((lstm.layers, lstm.hidden), np.float32)
        self._nothing = _Read(0, None, (zeros, zeros))
        self.start = self.after(self._nothing, found.blank)
        self._most = 1 if header.is_int8 or not self._takes_batches() else _CONTEXTS

    def after(self, context: _Read, unit: int) -> _Read:
        return _Read(unit, context, context.states)

    def predicted(self, contexts: Sequence[_Read]) -> FloatArray:
        missing = [item for item in dict.fromkeys(contexts) if item.output is None]
        for first in range(0, len(missing), self._most):
            self._read(missing[first : first + self._most])
        return np.stack([item.output for item in contexts if item.output is not None])

    def _takes_batches(self) -> bool:
        try:
            self._read([self.after(self._nothing, 0), self.after(self._nothing, 0)])
        except Exception:  # onnxruntime's own exceptions share no public base
            return False
        return True

    def _read(self, contexts: Sequence[_Read]) -> None:
        units, lens = self._kinds
        before = [item.before or self._nothing for item in contexts]
        feed = (
            np.array([[item.unit] for item in contexts], units),
            np.ones(len(contexts), lens),
            *(np.stack([item.states[place] for item in before], axis=1) for place in (0, 1)),
        )
        out, _, h, c = self._network.run(None, dict(zip(self._inputs, feed, strict=True)))
        for row, item in enumerate(contexts):
            # Copies: views would keep the rest of the batch.
            item.states, item.output = (h[:, row].copy(), c[:, row].copy()), out[row].ravel().copy()
            item.before = None
