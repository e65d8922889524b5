"""Scores of texts by n-grams: the `rescorer` component, and the hook that calls it."""

import numpy as np

from conch.bls.calls import Calls
from conch.component import Outputs, Row, RowByRow, bytes_array
from conch.decoding.ngram.model import LanguageModelConfig, load_language_model
from conch.language import language_model_words
from conch.recognition.hooks import Encodings
from conch.wire.options import RecognitionOptions


class Rescorer(RowByRow):
    def __init__(self, config: LanguageModelConfig) -> None:
        self._model = load_language_model(config)

    def answer(self, row: Row, /) -> Outputs:
        texts = [language_model_words(text) for text in row.texts("hypotheses")]
        return {
            "lm_scores": np.array([self._model.score(words) for words in texts], dtype=np.float32),
            "num_words": np.array([len(words) for words in texts], dtype=np.int32),
        }


async def scores(
    calls: Calls, texts: list[str], encodings: Encodings, options: RecognitionOptions
) -> list[float]:
    outputs = await calls("rescorer", {"hypotheses": bytes_array(texts)}, ("lm_scores",))
    return [float(score) for score in outputs["lm_scores"].numpy()]
