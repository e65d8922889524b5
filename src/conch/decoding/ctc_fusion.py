"""What a prefix is ranked by besides its acoustic score: an n-gram's words, and hotwords.

What a prefix got for good (`prior`) is kept apart from what is pending: the cost of a beginning
of no known word and the shares of hotwords matched in part are taken back or made good when the
word is complete.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from conch.decoding.ctc_hotwords import BETWEEN_WORDS, HotwordTables
from conch.decoding.ctc_lexicon import ROOT, Lexicon
from conch.language.ngram_tensors import NgramTensors, score_words


class FusionTables(NamedTuple):
    """What does not change while streams are searched together."""

    with_words: bool
    """Some stream uses the n-gram."""
    with_hotwords: bool
    """Some stream has hotwords."""
    ngram: NgramTensors
    lexicon: Lexicon
    hotwords: HotwordTables
    opening: Tensor
    """bool `[V + 1]`: the units that close the word before them; one more for none."""
    prune_history: bool
    """Some stream drops prefixes that cannot become the best any more."""


class FusionWeights(NamedTuple):
    """What differs from stream to stream; `[B, 1]`, float64 if nothing else is said."""

    lm_weight: Tensor
    word_bonus: Tensor
    unknown: Tensor
    """What a beginning of no known word costs, weighted: 0 or less."""
    keep_history: Tensor
    """bool: not to drop prefixes that cannot become the best any more."""


class FusionState(NamedTuple):
    """Of the prefixes of `B` streams in `K` slots; every field is `[B, K]`."""

    prior: Tensor
    """float64: what complete words and hotwords have added to the score."""
    lm_score: Tensor
    """float64: log probability of the complete words, unweighted."""
    bias: Tensor
    """float64: what complete hotwords have added."""
    word_score: Tensor
    """float64: log probability of the last word were it complete; NaN while not asked for."""
    word_target: Tensor
    """int64: the n-gram's state after that."""
    context: Tensor
    """int64: the n-gram's state before the last word."""
    node: Tensor
    """int64: the lexicon's node of the last word."""
    hotword: Tensor
    """int64: the state of the hotwords' automaton."""
    spelling: Tensor
    """int64: a hash of the last word's units."""


def empty_fusion(size: int, context: int, device: torch.device) -> FusionState:
    """Return the fusion of the empty prefix in every slot of one stream, `[1, size]`.

    Args:
        size: slots.
        context: the n-gram's state at the beginning of a sentence.
        device: where to.
    """
    zeros = torch.zeros(1, size, dtype=torch.float64, device=device)
    places = torch.zeros(1, size, dtype=torch.int64, device=device)
    return FusionState(
        prior=zeros,
        lm_score=zeros,
        bias=zeros,
        word_score=torch.full_like(zeros, math.nan),
        word_target=places,
        context=places + context,
        node=places + ROOT,
        hotword=places + BETWEEN_WORDS,
        spelling=places,
    )


class Ranked(NamedTuple):
    """Scores to rank by."""

    ranks: Tensor
    """float64 `[B, K, N]`."""
    word_score: Tensor
    word_target: Tensor
    closing: Tensor
    """float64 `[B, K]`: what the end of the last word adds for good."""


def ranked(
    grown: Tensor,
    total: Tensor,
    unit_at: Tensor,
    opening: Tensor,
    opening_frame: Tensor,
    limits: Tensor | None,
    state: FusionState,
    tables: FusionTables,
    weights: FusionWeights,
) -> Ranked:
    """Return the scores that prefixes and their extensions are ranked by.

    Words are scored only where their end could make it into the beam: a log probability is at
    most 0, so that many need not be looked up.

    Args:
        grown: float64 `[B, K, N]`: acoustic scores of each prefix, twice, and of its extensions.
        total: float64 `[B, K]`: acoustic scores before this frame.
        unit_at: int64 `[B, N]`: the units of the extensions; V in the second column.
        opening: bool `[B, N]`: which of them close a word.
        opening_frame: float64 `[B, 1]`: the best log posterior of the units that close a word.
        limits: as in `ctc_beam.advance_frames`.
        state: before this frame.
        tables: of these streams.
        weights: of these streams.
    """
    root, never = 0, -math.inf
    width = tables.opening.shape[0]
    units = unit_at.unsqueeze(1)
    ranks = grown + state.prior.unsqueeze(2)
    word_score, word_target = state.word_score, state.word_target
    closing = torch.zeros_like(total)
    if tables.with_hotwords:
        pending = tables.hotwords.pending.take((state.hotword * width).unsqueeze(2) + units)
        ranks = ranks + pending
        closing = tables.hotwords.done.take(state.hotword)
        if tables.with_words:
            cost = tables.lexicon.penalties.take((state.node * width).unsqueeze(2) + units)
            # Where a hotword goes on, a word that the n-gram does not know is welcome.
            ranks = ranks + cost.masked_fill(pending > 0, 0.0) * weights.unknown.unsqueeze(2)
    elif tables.with_words:
        cost = tables.lexicon.penalties.take((state.node * width).unsqueeze(2) + units)
        ranks = ranks + cost * weights.unknown.unsqueeze(2)
    if tables.with_words:
        staying = ranks.select(2, 0)
        if limits is not None:
            staying = staying.masked_fill(limits, math.inf)
        bound = total + state.prior + closing + (opening_frame + weights.word_bonus)
        asked = (bound >= staying.amin(1, keepdim=True)) & word_score.isnan()
        places = asked.flatten().nonzero().squeeze(1)
        if places.shape[0] > 0:
            word = tables.lexicon.words.take(state.node.take(places))
            found, targets = score_words(tables.ngram, state.context.take(places), word)
            word_score = word_score.flatten().scatter(0, places, found).view(total.shape)
            word_target = word_target.flatten().scatter(0, places, targets).view(total.shape)
        # Not asked for: it could not make it, so it must not.
        scored = (word_score * weights.lm_weight + weights.word_bonus).nan_to_num(nan=never)
        closing = torch.where(state.node == root, closing, closing + scored)
    ranks = torch.where(opening.unsqueeze(1), ranks + closing.unsqueeze(2), ranks)
    return Ranked(ranks, word_score, word_target, closing)


def selected(
    rows: Tensor,
    extended: Tensor,
    added: Tensor,
    state: FusionState,
    ranked: Ranked,
    tables: FusionTables,
    multiplier: int,
) -> FusionState:
    """Return the state after a frame.

    Args:
        rows: int64 `[B, K]`: the place of the prefix in the beam before, in `[0, B * K)`.
        extended: bool `[B, K]`: by a unit.
        added: int64 `[B, K]`: which; the blank where not extended.
        state: before the frame.
        ranked: of the frame.
        tables: of these streams.
        multiplier: of hashes.
    """
    root = 0
    opens = extended & tables.opening.take(added)
    prior = state.prior.take(rows)
    prior = torch.where(opens, prior + ranked.closing.take(rows), prior)
    lm_score, bias, word_score = state.lm_score, state.bias, ranked.word_score
    word_target, context, node = ranked.word_target, state.context, state.node
    hotword, spelling = state.hotword, state.spelling
    width = tables.opening.shape[0]
    if tables.with_hotwords:
        hotword = hotword.take(rows)
        bias = bias.take(rows)
        bias = torch.where(opens, bias + tables.hotwords.done.take(hotword), bias)
        hotword = tables.hotwords.following.take(hotword * width + added).long()
    if tables.with_words:
        node = node.take(rows)
        closes = opens & (node != root)
        lm_score, word_score = lm_score.take(rows), word_score.take(rows)
        word_target, context = word_target.take(rows), context.take(rows)
        lm_score = torch.where(closes, lm_score + word_score, lm_score)
        context = torch.where(closes, word_target, context)
        word_score = word_score.masked_fill(extended, math.nan)
        node = tables.lexicon.following.take(node * width + added).long()
    if tables.prune_history:
        spelling = spelling.take(rows)
        longer = (spelling * 31 + added) * multiplier
        spelling = torch.where(extended, longer.masked_fill(opens, 0) + added, spelling)
    return FusionState(
        prior, lm_score, bias, word_score, word_target, context, node, hotword, spelling
    )


def superseded(state: FusionState, in_blank: Tensor, keep_history: Tensor) -> Tensor:
    """Return which prefixes differ from a better one only in what no score depends on any more.

    Args:
        state: of prefixes, the best first.
        in_blank: bool `[B, K]`: the prefix ends in a blank.
        keep_history: bool `[B, 1]`: of such prefixes all are kept.

    Returns:
        bool `[B, K]`.
    """
    # Sums of large odd multiples wrap around: different parts do not make equal keys.
    key = state.spelling * 3202034522624059733 + state.context * 5555116246627715051
    key = key + state.hotword * 7319936632422683419 + in_blank
    same = key.unsqueeze(2) == key.unsqueeze(1)
    return same.tril(-1).any(2) & ~keep_history
