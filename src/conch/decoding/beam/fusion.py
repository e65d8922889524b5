"""What a prefix is ranked by besides its acoustic score: an n-gram's words.

What a prefix got for good (`prior`) is kept apart from what is pending: the cost of a beginning of
no known word is taken back when the word is complete.

Shapes are those of `step`.
"""

import math
from typing import NamedTuple

import numpy as np

from conch.decoding.beam.arrays import Array, first_true, indices, namespace, placed
from conch.decoding.beam.frames import Frame
from conch.decoding.beam.language import CtcLanguageModel
from conch.decoding.beam.ngram_arrays import score_words
from conch.decoding.beam.prefix import HASH_MULTIPLIER
from conch.decoding.beam.trie import ROOT
from conch.decoding.vocab import BLANK

ROUNDING = 1e-6
"""More than sums of the same numbers in another order differ by."""
_NEVER = -math.inf


class FusionWeights(NamedTuple):
    """What differs from stream to stream."""

    lm_weight: Array
    """float64 `[B, 1, K]`, the same for all slots."""
    word_bonus: Array
    """float64 `[B, 1, K]`."""
    unknown: Array
    """float64 `[B, 1, 1]`: what a beginning of no known word costs, weighted: 0 or less."""
    has_words: Array
    """bool `[B, 1, 1]`: the stream uses the n-gram."""
    prunes: Array
    """bool `[B, 1, 1]`: it drops prefixes that cannot become the best any more."""


class Fusion(NamedTuple):
    """What the streams of a batch are searched with."""

    model: CtcLanguageModel
    """The n-gram."""
    closes_word: Array
    """bool `[V]`: the units that close the word before them."""
    prune_history: bool
    """Some stream drops prefixes that cannot become the best any more."""
    slots: Array
    """int64 `[K]`: 0 and following."""
    weights: FusionWeights

    def of_first(self, streams: int) -> "Fusion":
        """Return that of the first streams."""
        return self._replace(weights=FusionWeights(*(item[:streams] for item in self.weights)))


class Words(NamedTuple):
    """What the complete words of prefixes amount to; every field is `[B, 1, K]`."""

    prior: Array
    """float64: what they have added to the score."""
    lm_score: Array
    """float64: log probability of the words, unweighted."""
    context: Array
    """int64: the n-gram's state after them."""


class FusionState(NamedTuple):
    """What is known of prefixes besides their acoustic score; every field is `[B, 1, K]`."""

    words: Words
    """But the last one, which may go on."""
    node: Array
    """int64: the trie's node of the last word."""
    spelling: Array
    """int64: a hash of the last word's units."""


class Ranks(NamedTuple):
    """What prefixes are ranked by in a frame."""

    scores: Array
    """float64 `[B, rows, K]`."""
    closed: Words | None
    """The words of each prefix with its last one; None where none is closed in the frame. `prior`
    is -inf of prefixes that closing the last word would not bring into the beam."""


def empty_fusion(size: int, context: int, device: str | None) -> FusionState:
    """Return the fusion of the empty prefix in every slot of one stream.

    Args:
        size: slots.
        context: the n-gram's state at the beginning of a sentence.
        device: as in `arrays.placed`.
    """
    shape = (1, 1, size)
    nothing = placed(np.zeros(shape), device)
    node, spelling, history = (placed(np.full(shape, item), device) for item in (ROOT, 0, context))
    return FusionState(Words(nothing, nothing, history), node, spelling)


def ranked(
    scores: Array, frame: Frame, limits: Array | None, state: FusionState, fusion: Fusion
) -> Ranks:
    """Return what prefixes are ranked by.

    Args:
        scores: float64 `[B, rows, K]`: acoustic, -inf where there is no prefix.
        frame: that is searched.
        limits: as in `frames.Chunk`.
        state: before the frame.
        fusion: of these streams.
    """
    ranks, words = _with_pending(scores, frame, state, fusion), state.words
    if frame.closing is None:
        return Ranks(ranks + words.prior, None)
    xp = namespace(ranks)
    # A word's log probability is at most 0: most need not be looked up.
    best = xp.amax(xp.where(frame.closing, ranks, _NEVER), axis=1)[:, None]
    best = best + words.prior + fusion.weights.word_bonus + ROUNDING
    stays = ranks[:, :1] + words.prior
    if limits is not None:
        stays[limits] = math.inf
    least = xp.amin(stays, axis=2)[:, None]
    closed = _closed(best > least, state, fusion.model, fusion.weights)
    return Ranks(xp.where(frame.closing, closed.prior, words.prior) + ranks, closed)


def _with_pending(scores: Array, frame: Frame, state: FusionState, fusion: Fusion) -> Array:
    """Return scores with what the words that are being said add as yet."""
    width = len(fusion.closes_word)
    cost = fusion.model.trie.penalties.take(frame.units + state.node * width)
    return scores + cost * fusion.weights.unknown


def _closed(
    is_asked: Array, state: FusionState, model: CtcLanguageModel, weights: FusionWeights
) -> Words:
    """Return the words with the last one, where that is asked, bool `[B, 1, K]`."""
    xp, words = namespace(is_asked), state.words
    has_word = (state.node != ROOT) & weights.has_words
    prior = xp.where(has_word, _NEVER, words.prior)
    (places,) = xp.where((is_asked & has_word).reshape(-1))
    if not len(places):
        return words._replace(prior=prior)
    word = model.trie.words.take(state.node.take(places))
    log_prob, history = score_words(model.ngram, words.context.take(places), word)
    added = weights.word_bonus.take(places) + log_prob * weights.lm_weight.take(places)
    lm_score = xp.where(has_word, 0.0, words.lm_score)
    context = xp.where(has_word, 0, words.context)
    prior.reshape(-1)[places] = words.prior.take(places) + added
    lm_score.reshape(-1)[places] = words.lm_score.take(places) + log_prob
    context.reshape(-1)[places] = history
    return Words(prior, lm_score, context)


def selected(
    places: Array, units: Array, closed: Words | None, state: FusionState, fusion: Fusion
) -> FusionState:
    """Return the state after a frame.

    Args:
        places: int64 `[B, 1, K]`: of the prefix in the beam before, in `[0, B * K)`.
        units: int64 `[B, 1, K]`: what it grows by; the blank where it stays.
        closed: as in `Ranks`.
        state: before the frame.
        fusion: of these streams.
    """
    xp, width = namespace(places), len(fusion.closes_word)
    words = Words(*(item.take(places) for item in state.words))
    node, spelling = (item.take(places) for item in state[1:])
    begun = spelling
    if closed is not None:
        closes = fusion.closes_word.take(units)
        pairs = zip(closed, words, strict=True)
        words = Words(*(xp.where(closes, after.take(places), before) for after, before in pairs))
        begun = xp.where(closes, 0, spelling)
    node = indices(fusion.model.trie.following.take(units + node * width))
    if fusion.prune_history:
        spelling = xp.where(units == BLANK, spelling, begun * HASH_MULTIPLIER + units)
    return FusionState(words, node, spelling)


def superseded(state: FusionState, in_blank: Array, fusion: Fusion) -> Array:
    """Return which prefixes differ from a better one only in what no score depends on any more.

    Args:
        state: of prefixes, the best first.
        in_blank: bool `[B, 1, K]`: the prefix ends in a blank.
        fusion: of these streams.

    Returns:
        bool `[B, 1, K]`.
    """
    # Sums of large odd multiples wrap around: different parts do not make equal keys.
    key = state.spelling + state.words.context * 5555116246627715051
    key += in_blank * 3202034522624059733
    best = first_true(key.swapaxes(1, 2) == key)[:, None]
    return (best < fusion.slots) & fusion.weights.prunes
