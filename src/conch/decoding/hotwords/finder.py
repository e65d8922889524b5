"""The hotwords of one utterance: the words that they may replace are given by a search."""

import numpy as np

from conch.component.arrays import FloatArray
from conch.decoding.hotwords.placing import Alignment, Placed, Reading, Window, with_hotwords
from conch.decoding.hotwords.spotting import Spotter
from conch.decoding.hotwords.trie import HotwordTrie
from conch.families.ctc import BLANK


class HotwordFinder:
    """Finds the hotwords of one utterance as its frames come in."""

    def __init__(self, trie: HotwordTrie, blank_penalty: float) -> None:
        """Begin an utterance.

        Args:
            trie: of the hotwords.
            blank_penalty: nats taken off a blank's log probability, because a text is compared by
                its best alignment alone.
        """
        self._trie, self._blank_penalty = trie, blank_penalty
        self._spotter = Spotter(trie)
        self._none = np.zeros((0, len(trie.opens)), np.float32)
        self._frames: list[FloatArray] = []
        self._kept = 0
        self._alignments: dict[Window, Alignment | None] = {}

    def advance(self, log_probs: FloatArray) -> None:
        """Take the next frames, float32 `[T, V]`."""
        if len(log_probs):
            frames = log_probs.astype(np.float32)
            frames[:, BLANK] -= self._blank_penalty
            self._frames.append(frames)
            self._spotter.advance(frames)

    @property
    def frames(self) -> FloatArray:
        """Log probabilities so far, float32 `[T, V]`, with the penalty."""
        if len(self._frames) != 1:
            self._frames = [np.concatenate([self._none, *self._frames])]
        return self._frames[0]

    def keep_before(self, frame: int) -> None:
        """Let no hotword reach over a frame, before which words were told as stable."""
        self._kept = frame

    def placed(self, reading: Reading) -> Placed:
        """Return a hypothesis of the frames so far with the hotwords in their places."""
        if not len(self.frames):
            return Placed(reading.words, 0.0, 0.0, 0.0)
        spots = self._spotter.spots()
        return with_hotwords(
            reading,
            self.frames,
            spots,
            self._trie,
            kept_frames=self._kept,
            alignments=self._alignments,
        )
