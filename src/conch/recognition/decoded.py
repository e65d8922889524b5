"""The result of a decoder, the same for every recogniser, and how it is read from tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from conch.bls.call import Tensor
from conch.wire.result import Hypothesis, Word

WORD_COLUMNS = ("words", "word_starts", "word_ends", "word_confidences")
"""Output tensors of a decoder that has words."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The result of decoding a segment, or a live utterance so far."""

    nbest: Sequence[Hypothesis]
    """Hypotheses, best first. No two have the same text."""
    words: Mapping[str, tuple[Word, ...]]
    """Words by text, of the texts whose words are known."""
    stable: str = ""
    """Beginning of the text that further audio cannot change, for an utterance that goes on."""
    language: str = ""
    """Code of the language of the speech; empty if the decoder does not know it."""
    language_probability: float | None = None
    """Probability of `language`; None if it was not detected."""
    emotion: str = ""
    """Emotion, as in `Segment`; empty if the decoder does not know it."""
    event: str = ""
    """Event, as in `Segment`; empty if the decoder does not know it."""
    lattice: str = ""
    """Kaldi lattice; empty without the option `lattice`."""


NOTHING_DECODED = Decoded([Hypothesis("", 0.0, 0.0)], {"": ()})
"""The result without a recogniser."""


def hypotheses_of(outputs: Mapping[str, Tensor]) -> list[Hypothesis]:
    """Return the hypotheses in a decoder's outputs `hypotheses` and `scores`, best first."""
    texts = [text.decode() for text in outputs["hypotheses"].numpy()]
    scores = [float(score) for score in outputs["scores"].numpy()]
    return [Hypothesis(*pair, am_score=pair[1]) for pair in zip(texts, scores, strict=True)]


def words_of(outputs: Mapping[str, Tensor], start: float) -> tuple[Word, ...]:
    """Return the words in a decoder's WORD_COLUMNS; `start` is the segment's, in seconds."""
    columns = (
        [word.decode() for word in outputs["words"].numpy()],
        np.round(start + outputs["word_starts"].numpy().astype(float), 3).tolist(),
        np.round(start + outputs["word_ends"].numpy().astype(float), 3).tolist(),
        np.round(outputs["word_confidences"].numpy().astype(float), 4).tolist(),
    )
    return tuple(Word(*row) for row in zip(*columns, strict=True))
