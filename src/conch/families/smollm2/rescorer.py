"""The `neural_rescorer` component: score texts by a neural language model."""

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from conch.component import Outputs, Row
from conch.families.smollm2.model import NeuralLanguageModel, NeuralRescorerConfig, TextInContext
from conch.language.normalize import language_model_words

_FIRST_LETTER = re.compile(r"[^\W\d_]")
_PRONOUN = re.compile(r"\bi\b")


class NeuralRescorer:
    def __init__(self, config: NeuralRescorerConfig) -> None:
        self._model = NeuralLanguageModel(config)

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        """Answer rows with `hypotheses` and perhaps `context`; they share batches."""
        texts = [row.texts("hypotheses") for row in rows]
        contexts = [row.texts("context")[0] if "context" in row.inputs else "" for row in rows]
        scores = iter(
            self._model.score(
                [
                    TextInContext(as_sentence(text), as_paragraphs(context))
                    for context, own in zip(contexts, texts, strict=True)
                    for text in own
                ]
            )
        )
        return [
            {
                "lm_scores": np.array([next(scores) for _ in own], dtype=np.float32),
                "num_words": np.array([len(language_model_words(t)) for t in own], dtype=np.int32),
            }
            for own in texts
        ]


def as_paragraphs(context: str) -> str:
    """Return a context with each of its paragraphs as of `as_sentence`.

    >>> as_paragraphs("numbers\\n\\nso he said"), as_paragraphs("Numbers.\\n\\n")
    ('Numbers.\\n\\nSo he said.', 'Numbers.\\n\\n')
    """
    return "\n\n".join(map(as_sentence, context.split("\n\n")))


def as_sentence(text: str) -> str:
    """Return a text of CTC, in lower case without punctuation, as it is written in English.

    Neural models have read few texts of the other form. Any other text stays as it is.

    >>> as_sentence("it isn't what i saw"), as_sentence("He said: no"), as_sentence("")
    ("It isn't what I saw.", 'He said: no', '')
    """
    if not text.islower() or any(
        unicodedata.category(sign).startswith("P") and sign not in "'\u2019-" for sign in text
    ):
        return text
    written = _PRONOUN.sub("I", text.strip())
    return _FIRST_LETTER.sub(lambda found: found[0].upper(), written, count=1) + "."
