"""N-best lists of a decoding graph, rescored by a language model as requests do it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from conch.decoding.graph.search import DecodingGraph, WfstStream
from conch.decoding.ngram.model import LanguageModel
from conch.language.normalize import language_model_words
from conch.wire.nbest import Weights, ranked
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis

RESCORED = RecognitionOptions.parse({"decoder": "wfst", "rescore": True, "rescorer": "ngram"})
Scored = list[Hypothesis]
"""An n-best list with the score and the words of each text by the language model."""


def scored_lists(
    graph: DecodingGraph, language_model: LanguageModel, log_probs: Sequence[NDArray[np.float32]]
) -> list[Scored]:
    """Return the n-best lists of utterances, as long as `beam_size` of a request has them."""
    found = []
    for item in tqdm(log_probs, desc="n-best lists", disable=None):
        stream = WfstStream(graph)
        stream.advance(item)
        nbest = []
        for path in stream.finish(RESCORED.beam_size):
            words = language_model_words(path.text)
            lm_score = language_model.score(words)
            nbest.append(Hypothesis(path.text, path.score, path.am_score, lm_score, len(words)))
        found.append(nbest)
    return found


def best_texts(lists: Sequence[Scored], weights: Weights = RESCORED.weights) -> list[str]:
    """Return the text of each list that comes first with these weights."""
    return [ranked(nbest, weights, replaces_lm=True)[0].text for nbest in lists]
