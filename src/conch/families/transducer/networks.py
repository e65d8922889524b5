"""The networks of a transducer: the encoder components, and predictor and joiner for the search.

The files call the predictor the decoder: it says what may follow the units so far.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from conch.catalogue.exports import AcousticEncoder
from conch.component import FloatArray, log_softmax
from conch.component.onnx import open_network
from conch.families.search.encoders import ExportedEncoder, LiveEncoder, RecordingEncoder
from conch.families.search.graphs import (
    TYPES,
    EncoderGraph,
    FolderConfig,
    LiveConfig,
    RecordingsConfig,
    folder_of,
)
from conch.families.transducer import FRAMES
from conch.families.transducer.folder import Lstm, Transducer, read_transducer
from conch.wire.errors import ConfigError

_CONTEXTS = 8192
"""Contexts whose output is kept: 16 MB for 512 values. Speech has few of the possible pairs."""
Context = Any
"""A predictor's state after the units so far; only the predictor looks into it."""


def opened_folder(config: FolderConfig) -> Transducer:
    return folder_of(config, "transducer", "is no transducer", read_transducer)


def opened_part(model: Transducer, part: str, threads: int) -> onnxruntime.InferenceSession:
    return open_network(f"the {part} of a transducer", model.parts[part], threads)


def opened_encoder(encoder: AcousticEncoder, threads: int) -> EncoderGraph:
    return EncoderGraph(encoder, "the encoder of a transducer", threads)


class Predictor(Protocol):
    start: Context
    """The context before the first unit."""
    size: int
    """Units in a context; 0 if it has all."""

    def after(self, context: Context, unit: int, /) -> Context:
        """Return a context with a further unit."""

    def predicted(self, contexts: Sequence[Context], /) -> FloatArray:
        """Return the joiner's input for each context, float32 `[N, size]`."""


class LastUnitsPredictor:
    """Reads the last units alone, as those of icefall do; -1 is before the first."""

    def __init__(self, model: Transducer, threads: int) -> None:
        self._network = opened_part(model, "decoder", threads)
        (self._input,) = (item.name for item in self._network.get_inputs())
        self._dtype = TYPES.get(model.headers["decoder"].inputs[0].element_type, np.int64)
        self._predicted = lru_cache(_CONTEXTS)(self._predict)
        self.size = model.context_size
        self.start = (*[-1] * (self.size - 1), model.blank)

    def after(self, context: tuple[int, ...], unit: int) -> tuple[int, ...]:
        return (*context[1:], unit)

    def predicted(self, contexts: Sequence[tuple[int, ...]]) -> FloatArray:
        # One by one where it is int8; a matter of microseconds anyway.
        return np.stack([*map(self._predicted, contexts)])

    def _predict(self, context: tuple[int, ...]) -> FloatArray:
        (output,) = self._network.run(None, {self._input: np.array([context], self._dtype)})
        return np.asarray(output.reshape(-1))


@dataclass(slots=True, eq=False)
class _Read:
    """State after all units so far, which the network reads when its output is needed."""

    unit: int
    before: "_Read | None"
    """All units but the last; None once they are read."""
    states: tuple[FloatArray, FloatArray]
    """States of the network after the last unit, each `[layers, hidden]`, once it is read."""
    output: FloatArray | None = None


class LstmPredictor:
    """Reads every unit once, and keeps states, as those of NeMo do."""

    size = 0

    def __init__(self, model: Transducer, lstm: Lstm, threads: int) -> None:
        self._network = opened_part(model, "decoder", threads)
        self._inputs = [item.name for item in self._network.get_inputs()]
        header = model.headers["decoder"]
        self._dtypes = [TYPES.get(item.element_type, np.int64) for item in header.inputs[:2]]
        zeros = np.zeros((lstm.layers, lstm.hidden), np.float32)
        self._nothing = _Read(0, None, (zeros, zeros))
        self.start = self.after(self._nothing, model.blank)
        two = [self.after(self._nothing, 0) for _ in range(2)]
        self._most = 1 if header.is_int8 or not _runs(lambda: self._read(two)) else _CONTEXTS

    def after(self, context: _Read, unit: int) -> _Read:
        return _Read(unit, context, context.states)

    def predicted(self, contexts: Sequence[_Read]) -> FloatArray:
        missing = [item for item in dict.fromkeys(contexts) if item.output is None]
        for first in range(0, len(missing), self._most):
            self._read(missing[first : first + self._most])
        return np.stack([item.output for item in contexts if item.output is not None])

    def _read(self, contexts: Sequence[_Read]) -> None:
        units, lens = self._dtypes
        before = [item.before or self._nothing for item in contexts]
        feed = (
            np.array([[item.unit] for item in contexts], units),
            np.ones(len(contexts), lens),
            *(np.stack([item.states[index] for item in before], axis=1) for index in (0, 1)),
        )
        out, _, h, c = self._network.run(None, dict(zip(self._inputs, feed, strict=True)))
        for row, item in enumerate(contexts):
            # Copies: views would keep the rest of the batch.
            item.states, item.output = (h[:, row].copy(), c[:, row].copy()), out[row].ravel().copy()
            item.before = None


class Expected(NamedTuple):
    """Probabilities of the next unit, for several frames and contexts."""

    log_probs: FloatArray
    """Log probability of each unit, float32 `[N, units]`."""
    steps: NDArray[np.int64]
    """Frames to go on by after a unit, `[N]`; after a blank it is one at least."""
    step_log_probs: FloatArray
    """Log probability of each step, float32 `[N]`."""


class Joint:
    """Log probabilities of the next unit, given a frame and the units before."""

    def __init__(self, model: Transducer, threads: int, blank_penalty: float) -> None:
        """`blank_penalty` are nats that a blank loses."""
        self.predictor: Predictor = (
            LstmPredictor(model, model.lstm, threads)
            if model.lstm
            else LastUnitsPredictor(model, threads)
        )
        self._joiner = opened_part(model, "joiner", threads)
        self._frame, self._predicted = (item.name for item in self._joiner.get_inputs())
        self.is_one_by_one = model.headers["joiner"].is_int8
        """Whether a row depends on the others of its call."""
        self.is_nemo = model.lstm is not None
        """Whether a frame may have several units."""
        self.ahead = 1 if model.is_tdt or self.is_one_by_one else 2 if self.is_nemo else 8
        """Frames that a greedy search looks at in one call: more than from one unit to the next."""
        self.most_units = 5 if model.is_tdt else 10
        """Units at one frame of the greedy search of such a model."""
        self._blank, self._blank_penalty = model.blank, blank_penalty
        self._num_units, self._is_tdt = len(model.tokens), model.is_tdt
        self._takes_batches = True
        self.frame_size = 0
        self._check(model)

    def _check(self, model: Transducer) -> None:
        try:
            predicted = self.predictor.predicted([self.predictor.start])
            # Where the encoder does not say it, both have one size.
            size = (*model.headers["encoder"].outputs[0].dims, "", "")[1 if self.is_nemo else 2]
            self.frame_size = size if isinstance(size, int) else predicted.shape[1]
            frame = np.zeros((1, self.frame_size), np.float32)
            width = self._logits(frame, predicted).shape[1]
            two = np.repeat(frame, 2, 0), np.repeat(predicted, 2, 0)
            self._takes_batches = _runs(lambda: self._logits(*two))
        except Exception as error:  # onnxruntime's own exceptions share no public base
            raise ConfigError(
                f"decoder and joiner in {model.folder} do not go together: {error}"
            ) from error
        if not (width > self._num_units if model.is_tdt else width == self._num_units):
            more = " and durations" if model.is_tdt else ""
            raise ConfigError(
                f"the joiner in {model.folder} writes {width} units{more}, and its tokens.txt has "
                f"{self._num_units}"
            )

    def expected(self, frames: FloatArray, predicted: FloatArray) -> Expected:
        """Return the probabilities at each of these frames of the encoder, float32 `[N, size]`."""
        outputs = self._logits(frames, predicted)
        logits, durations = outputs[:, : self._num_units], outputs[:, self._num_units :]
        if self._blank_penalty:
            logits[:, self._blank] -= self._blank_penalty
        log_probs = log_softmax(logits)
        if not self._is_tdt:
            steps = np.full(len(outputs), 0 if self.is_nemo else 1)
            return Expected(log_probs, steps, np.zeros(len(outputs), np.float32))
        steps = durations.argmax(axis=1)
        return Expected(log_probs, steps, log_softmax(durations).max(axis=1))

    def _logits(self, frames: FloatArray, predicted: FloatArray) -> FloatArray:
        """Return the joiner's output, float32 `[N, units]`, with durations behind the units."""
        if not self._takes_batches and len(frames) > 1:
            rows = zip(frames[:, None], predicted[:, None], strict=True)
            return np.concatenate([self._logits(*row) for row in rows])
        if self.is_nemo:
            frames, predicted = frames[:, :, None], predicted[:, :, None]
        (output,) = self._joiner.run(None, {self._frame: frames, self._predicted: predicted})
        return np.asarray(output.reshape(len(frames), -1))


def _runs(call: Callable[[], object]) -> bool:
    try:
        call()
    except Exception:  # onnxruntime's own exceptions share no public base
        return False
    return True


class TransducerEncoder(RecordingEncoder):
    def __init__(self, config: RecordingsConfig) -> None:
        graph = opened_encoder(opened_folder(config).encoder, config.threads)
        super().__init__(ExportedEncoder(graph), FRAMES, config)


class TransducerStreamingEncoder(LiveEncoder):
    """Turns samples of streams into frames; refuses all for an encoder of recordings."""

    def __init__(self, config: LiveConfig) -> None:
        model = opened_folder(config)
        graph = opened_encoder(model.live, config.threads) if model.live else None
        super().__init__(graph, FRAMES, "transducer", config.model, config.stream_ttl_s)
