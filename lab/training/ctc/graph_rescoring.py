"""N-best lists of a decoding graph, rescored by a language model as requests do it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from conch.decoding.graph.search import DecodingGraph, WfstStream
from conch.language.ngram import LanguageModel
from conch.language.normalize import language_model_words
from conch.wire.nbest import rescored
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis

RESCORED = RecognitionOptions.parse({"decoder": "wfst", "rescore": True})
Scored = tuple[list[Hypothesis], list[tuple[float, int]]]
"""An n-best list, and of each text its log probability and its words by the language model."""


def scored_lists(
    graph: DecodingGraph, language_model: LanguageModel, log_probs: Sequence[NDArray[np.float32]]
) -> list[Scored]:
    """Return the n-best lists of utterances, as long as `beam_size` of a request has them."""
    found = []
    for item in tqdm(log_probs, desc="n-best lists", disable=None):
        stream = WfstStream(graph)
        stream.advance(item)
        nbest = [
            Hypothesis(path.text, path.score, path.am_score, path.lm_score, len(path.words))
            for path in stream.finish(RESCORED.beam_size)
        ]
        words = [language_model_words(hypothesis.text) for hypothesis in nbest]
        found.append((nbest, [(language_model.score(item), len(item)) for item in words]))
    return found


def best_texts(lists: Sequence[Scored], options: RecognitionOptions = RESCORED) -> list[str]:
    """Return the text of each list that comes first with the weights of `options`."""
    return [rescored(nbest, scores, options)[0].text for nbest, scores in lists]
