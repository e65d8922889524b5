"""The joiner of a transducer, which the search asks for each frame, and its predictor."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.component.arrays import FloatArray, log_softmax
from conch.families.transducer.folder import Transducer
from conch.families.transducer.graphs import opened_part
from conch.families.transducer.predictor import Context, predictor_of
from conch.wire.errors import ConfigError


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
