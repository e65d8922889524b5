"""The networks of a transducer: its predictor, and the joiner, which a search asks for each frame.

The files call the predictor the decoder: it says what may follow the units so far.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from conch.catalogue.onnx_header import INT32
from conch.component.arrays import FloatArray, log_softmax
from conch.component.onnx import open_network, session_options
from conch.families.search.graphs import EncoderGraph, FolderConfig, folder_of
from conch.families.transducer.folder import Lstm, Transducer, read_transducer
from conch.wire.errors import ConfigError

_CONTEXTS = 8192
"""Contexts whose output is kept: 16 MB for 512 values. Speech has few of the possible pairs."""
Context = Any
"""What a predictor knows of the units so far. Only the predictor looks into it."""


def opened_folder(config: FolderConfig) -> Transducer:
    return folder_of(config, "transducer", "is no transducer", read_transducer)


def opened_part(found: Transducer, part: str, threads: int) -> onnxruntime.InferenceSession:
    options = session_options(threads)
    return open_network(f"the {part} of a transducer", found.parts[part], options)


def opened_encoder(found: Transducer, threads: int) -> EncoderGraph:
    return EncoderGraph(found.encoder, "the encoder of a transducer", threads)


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


class Expected(NamedTuple):
    """What may be written at a frame, for several frames and contexts."""

    log_probs: FloatArray
    """Log probability of each unit, float32 `[N, units]`."""
    steps: NDArray[np.int64]
    """Frames to go on by after a unit, `[N]`; after a blank it is one at least."""
    step_log_probs: FloatArray
    """Log probability of each step, float32 `[N]`."""


class Joint:
    """Log probabilities of the next unit, given a frame and the units before."""

    def __init__(self, found: Transducer, threads: int, blank_penalty: float) -> None:
        """`blank_penalty` are nats that a blank loses."""
        self.predictor = predictor_of(found, threads)
        self._joiner = opened_part(found, "joiner", threads)
        self._frame, self._predicted = (item.name for item in self._joiner.get_inputs())
        self.is_one_by_one = found.headers["joiner"].is_int8
        """Whether a row depends on the others of its call."""
        self.is_nemo = found.lstm is not None
        """Whether a frame may have several units."""
        self.ahead = 1 if found.is_tdt or self.is_one_by_one else 2 if self.is_nemo else 8
        """Frames that a greedy search looks at in one call: more than from one unit to the next."""
        self.most_units = 5 if found.is_tdt else 10
        """Units at one frame of the greedy search of such a model."""
        self._blank, self._blank_penalty = found.blank, blank_penalty
        self._num_units, self._is_tdt = len(found.tokens), found.is_tdt
        self._takes_batches = True
        self.frame_size = 0
        """Values of a frame."""
        self._check(found)

    def _check(self, found: Transducer) -> None:
        try:
            predicted = self.predicted([self.predictor.start])
            # Where the encoder does not say it, both have one size.
            size = (*found.headers["encoder"].outputs[0].dims, "", "")[1 if self.is_nemo else 2]
            self.frame_size = size if isinstance(size, int) else predicted.shape[1]
            frame = np.zeros((1, self.frame_size), np.float32)
            width = self._logits(frame, predicted).shape[1]
            self._takes_batches = self._runs(np.repeat(frame, 2, 0), np.repeat(predicted, 2, 0))
        except Exception as error:  # onnxruntime's own exceptions share no public base
            raise ConfigError(
                f"decoder and joiner in {found.folder} do not go together: {error}"
            ) from error
        if not (width > self._num_units if found.is_tdt else width == self._num_units):
            more = " and durations" if found.is_tdt else ""
            raise ConfigError(
                f"the joiner in {found.folder} writes {width} units{more}, and its tokens.txt has "
                f"{self._num_units}"
            )

    def predicted(self, contexts: Sequence[Context]) -> FloatArray:
        """Return the predictor's output for contexts, float32 `[N, size]`."""
        return self.predictor.predicted(contexts)

    def expected(self, frames: FloatArray, predicted: FloatArray) -> Expected:
        """Return what may follow each of these frames of the encoder, float32 `[N, size]`."""
        found = self._logits(frames, predicted)
        logits, durations = found[:, : self._num_units], found[:, self._num_units :]
        if self._blank_penalty:
            logits[:, self._blank] -= self._blank_penalty
        log_probs = log_softmax(logits)
        if not self._is_tdt:
            steps = np.full(len(found), 0 if self.is_nemo else 1)
            return Expected(log_probs, steps, np.zeros(len(found), np.float32))
        steps = durations.argmax(axis=1)
        return Expected(log_probs, steps, log_softmax(durations).max(axis=1))

    def _runs(self, frames: FloatArray, predicted: FloatArray) -> bool:
        try:
            self._logits(frames, predicted)
        except Exception:  # onnxruntime's own exceptions share no public base
            return False
        return True

    def _logits(self, frames: FloatArray, predicted: FloatArray) -> FloatArray:
        """Return what the joiner writes, float32 `[N, units]`, with durations behind the units."""
        if not self._takes_batches and len(frames) > 1:
            rows = zip(frames[:, None], predicted[:, None], strict=True)
            return np.concatenate([self._logits(*row) for row in rows])
        if self.is_nemo:
            frames, predicted = frames[:, :, None], predicted[:, :, None]
        (found,) = self._joiner.run(None, {self._frame: frames, self._predicted: predicted})
        logits: FloatArray = found.reshape(len(frames), -1)
        return logits
