"""The decoder and the joiner of a transducer, which the search asks for each frame."""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from conch.catalogue.onnx_header import INT32
from conch.catalogue.transducers import Transducer
from conch.component.arrays import FloatArray
from conch.families.transducer.graphs import opened_part
from conch.wire.errors import ConfigError

_CONTEXTS = 8192
"""Contexts whose output is kept: 16 MB for 512 values. Speech has few of the possible pairs."""

Context = tuple[int, ...]
"""The units before the next one, by number; -1 before the first."""


class Joint:
    """Log probabilities of the next unit, given a frame and the units before."""

    def __init__(self, found: Transducer, threads: int, blank_penalty: float) -> None:
        """Load both networks.

        Args:
            found: Their folder.
            threads: CPU threads of one call.
            blank_penalty: Nats that a blank loses.

        Raises:
            ConfigError: one cannot be loaded, or they do not go together.
        """
        self._decoder = opened_part(found, "decoder", threads)
        self._joiner = opened_part(found, "joiner", threads)
        (self._context,) = (item.name for item in self._decoder.get_inputs())
        self._kind = np.int32 if found.headers["decoder"].inputs[0].kind == INT32 else np.int64
        self._frame, self._predicted = (item.name for item in self._joiner.get_inputs())
        self.is_one_by_one = found.headers["joiner"].is_int8
        """Whether a row depends on the others of its call."""
        self._kept: OrderedDict[Context, FloatArray] = OrderedDict()
        self.start: Context = (*[-1] * (found.context_size - 1), 0)
        """The context before the first unit."""
        self._blank_penalty = blank_penalty
        self.frame_size = 0
        """Values of a frame."""
        self._check(found)

    def _check(self, found: Transducer) -> None:
        try:
            predicted = self.predicted([self.start])
            # Where the encoder does not say it, both have one size.
            size = (*found.headers["encoder"].outputs[0].dims, "")[2]
            self.frame_size = size if isinstance(size, int) else predicted.shape[1]
            frame = np.zeros((1, self.frame_size), np.float32)
            width = self.log_probs(frame, predicted).shape[-1]
        except Exception as error:  # onnxruntime's own exceptions share no public base
            raise ConfigError(
                f"decoder and joiner in {found.folder} do not go together: {error}"
            ) from error
        if width != len(found.tokens):
            raise ConfigError(
                f"the joiner in {found.folder} writes {width} units, and its tokens.txt has "
                f"{len(found.tokens)}"
            )

    def predicted(self, contexts: Sequence[Context]) -> FloatArray:
        """Return the decoder's output for contexts, float32 `[N, size]`."""
        missing = [item for item in dict.fromkeys(contexts) if item not in self._kept]
        # One by one where it is int8; a matter of microseconds anyway.
        for context in missing:
            feed = {self._context: np.array([context], self._kind)}
            (found,) = self._decoder.run(None, feed)
            self._kept[context] = found.reshape(-1)
        rows = np.stack([self._kept[item] for item in contexts])
        while len(self._kept) > _CONTEXTS:
            self._kept.popitem(last=False)
        return rows

    def log_probs(self, frames: FloatArray, predicted: FloatArray) -> FloatArray:
        """Return log probabilities of units, float32 `[N, units]`.

        Args:
            frames: Of the encoder, float32 `[N, size]`.
            predicted: Of `predicted`, for each.
        """
        (logits,) = self._joiner.run(None, {self._frame: frames, self._predicted: predicted})
        if self._blank_penalty:
            logits[:, 0] -= self._blank_penalty
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        found: FloatArray = logits
        return found
