"""Texts that each search finds in log probabilities, and n-best lists that are rescored."""

from collections.abc import Sequence

from tqdm import tqdm

from conch.component import FloatArray
from conch.decoding.beam import BeamSearch, CtcSearchOptions
from conch.decoding.fusion import FusedLanguageModel
from conch.decoding.graph.search import DecodingGraph, WfstConfig, WfstStream
from conch.decoding.ngram.model import LanguageModel
from conch.decoding.vocab import CtcVocab
from conch.language import language_model_words
from conch.wire.nbest import Weights, ranked
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis

RESCORED = RecognitionOptions.parse({"decoder": "wfst", "rescore": True, "rescorer": "ngram"})
Scored = list[Hypothesis]
"""An n-best list with the score and the words of each text by the language model."""


def beam_texts(
    log_probs: Sequence[FloatArray],
    vocab: CtcVocab,
    options: CtcSearchOptions,
    model: FusedLanguageModel | None = None,
) -> list[str]:
    """Return the best text of each utterance by the beam."""
    texts = []
    for item in log_probs:
        search = BeamSearch(vocab, options, model)
        search.advance(item)
        texts.append(search.nbest(1, is_final=True)[0].text)
    return texts


def graph_texts(
    graph: DecodingGraph, log_probs: Sequence[FloatArray], config: WfstConfig | None = None
) -> list[str]:
    """Return the best text of each utterance in a graph."""
    texts = []
    for item in log_probs:
        stream = WfstStream(graph, config)
        stream.advance(item)
        texts.append(stream.finish()[0].text)
    return texts


def scored_lists(
    graph: DecodingGraph, language_model: LanguageModel, log_probs: Sequence[FloatArray]
) -> list[Scored]:
    """Return the n-best lists of utterances, as long as `beam_size` of a request has them."""
    lists = []
    for item in tqdm(log_probs, desc="n-best lists", disable=None):
        stream = WfstStream(graph)
        stream.advance(item)
        nbest = []
        for path in stream.finish(RESCORED.beam_size):
            words = language_model_words(path.text)
            lm_score = language_model.score(words)
            nbest.append(Hypothesis(path.text, path.score, path.am_score, lm_score, len(words)))
        lists.append(nbest)
    return lists


def best_texts(lists: Sequence[Scored], weights: Weights = RESCORED.weights) -> list[str]:
    """Return the text of each list that comes first with these weights."""
    return [ranked(nbest, weights, replaces_lm=True)[0].text for nbest in lists]
