"""What a prefix is ranked by besides its acoustic score: an n-gram's words, and hotwords.

What a prefix got for good (`prior`) is kept apart from what is pending: the cost of a beginning
of no known word and the shares of hotwords matched in part are taken back or made good when the
word is complete.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from conch.decoding.beam.hotwords import BETWEEN_WORDS, HotwordTables
from conch.decoding.beam.lexicon import ROOT, Lexicon
from conch.decoding.beam.ngram_tensors import NgramTensors, score_words


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
    """What differs from stream to stream."""

    lm_weight: Tensor
    """float64 `[B, K]`, the same for all slots."""
    word_bonus: Tensor
    """float64 `[B, K]`."""
    unknown: Tensor
    """float64 `[B, 1, 1]`: what a beginning of no known word costs, weighted: 0 or less."""
    unscored: Tensor
    """bool `[B, V + 1]`: the units after which the n-gram has to be asked for the last word; none
    where it is not used."""
    earlier: Tensor
    """bool `[B, K, K]`: of a stream that drops prefixes which cannot become the best any more,
    which slots come before each slot."""


class FusionState(NamedTuple):
    """Of the prefixes of `B` streams in `K` slots.

    Every field is `[B, K]`, or `[2, B, K]`: first as it is, then as it were if the last word
    ended here.
    """

    prior: Tensor
    """float64 `[2, B, K]`: what complete words and hotwords have added to the score, but for the
    hotwords that would end with the last word; the second is -inf while the n-gram has not been
    asked."""
    lm_score: Tensor
    """float64 `[2, B, K]`: log probability of the complete words, unweighted."""
    context: Tensor
    """int64 `[2, B, K]`: the n-gram's state after them."""
    bias: Tensor
    """float64: what complete hotwords have added."""
    node: Tensor
    """int64: the lexicon's node of the last word."""
    hotword: Tensor
    """int64: the state of the hotwords' automaton."""
    spelling: Tensor
    """int64: a hash of the last word's units."""


def empty_fusion(size: int, context: int, device: torch.device) -> FusionState:
    """Return the fusion of the empty prefix in every slot of one stream.

    Args:
        size: slots.
        context: the n-gram's state at the beginning of a sentence.
        device: where to.
    """
    zeros = torch.zeros(2, 1, size, dtype=torch.float64, device=device)
    places = torch.zeros(2, 1, size, dtype=torch.int64, device=device)
    return FusionState(
        prior=zeros,
        lm_score=zeros,
        context=places + context,
        bias=zeros[0],
        node=places[0] + ROOT,
        hotword=places[0] + BETWEEN_WORDS,
        spelling=places[0],
    )


def copied(state: FusionState) -> FusionState:
    """Return a state that `ranked` may write to."""
    return FusionState(
        state.prior.clone(),
        state.lm_score.clone(),
        state.context.clone(),
        state.bias,
        state.node,
        state.hotword,
        state.spelling,
    )


def ranked(
    grown: Tensor,
    total: Tensor,
    units: Tensor,
    opening: Tensor,
    opening_bound: Tensor,
    limits: Tensor | None,
    state: FusionState,
    tables: FusionTables,
    weights: FusionWeights,
) -> Tensor:
    """Return the scores that prefixes and their extensions are ranked by, float64 `[B, K, N]`.

    Words are looked up, and written into the state, only where their end could make it into the
    beam: a log probability is at most 0, so that many need not be.

    Args:
        grown: float64 `[B, K, N]`: acoustic scores of each prefix, twice, and of its extensions.
        total: float64 `[B, K]`: acoustic scores before this frame.
        units: int64 `[B, 1, N]`: the units of the extensions; V in the second column.
        opening: bool `[B, 1, N]`: which of them close a word.
        opening_bound: float64 `[B, 1]`: the most that closing a word can add in this frame.
        limits: as in `ctc_beam.advance_frames`.
        state: before this frame.
        tables: of these streams.
        weights: of these streams.
    """
    never = -math.inf
    width = tables.opening.shape[0]
    prior, complete = state.prior.unbind()
    ranks = grown
    bound = opening_bound + total
    if tables.with_hotwords:
        pending = tables.hotwords.pending.take((state.hotword * width).unsqueeze(2) + units)
        ranks = grown + pending
        if tables.with_words:
            cost = tables.lexicon.penalties.take((state.node * width).unsqueeze(2) + units)
            # Where a hotword goes on, a word that the n-gram does not know is welcome.
            ranks.addcmul_(cost.masked_fill_(pending > 0, 0.0), weights.unknown)
            bound = bound + tables.hotwords.done.take(state.hotword) + (pending * opening).amax(2)
    elif tables.with_words:
        cost = tables.lexicon.penalties.take((state.node * width).unsqueeze(2) + units)
        ranks = torch.addcmul(grown, cost, weights.unknown)
    if tables.with_words:
        staying = ranks.select(2, 0) + prior
        if limits is not None:
            staying.masked_fill_(limits, math.inf)
        # Not where they are equal: in an empty slot both are impossible.
        asked = (bound.add_(prior) > staying.amin(1, keepdim=True)) & (complete == never)
        _look_up(asked.view(-1).nonzero().squeeze(1), state, tables, weights)
    if tables.with_hotwords:
        complete = complete + tables.hotwords.done.take(state.hotword)
    return torch.where(opening, complete.unsqueeze(2), prior.unsqueeze(2)).add_(ranks)


def _look_up(
    places: Tensor, state: FusionState, tables: FusionTables, weights: FusionWeights
) -> None:
    """Write into a state what it would be if the last words ended at places in `[0, B * K)`."""
    if places.shape[0] == 0:
        return
    word = tables.lexicon.words.take(state.node.take(places))
    log_prob, context = score_words(tables.ngram, state.context.take(places), word)
    added = weights.word_bonus.take(places).addcmul_(log_prob, weights.lm_weight.take(places))
    complete = places + state.node.numel()
    state.prior.view(-1).scatter_(0, complete, state.prior.take(places).add_(added))
    state.lm_score.view(-1).scatter_(0, complete, state.lm_score.take(places).add_(log_prob))
    state.context.view(-1).scatter_(0, complete, context)


def selected(
    rows: Tensor,
    extended: Tensor,
    added: Tensor,
    state: FusionState,
    tables: FusionTables,
    weights: FusionWeights,
    multiplier: int,
) -> FusionState:
    """Return the state after a frame.

    Args:
        rows: int64 `[B, K]`: the place of the prefix in the beam before, in `[0, B * K)`.
        extended: bool `[B, K]`: by a unit.
        added: int64 `[B, K]`: which; the blank or V where not extended.
        state: before the frame, as `ranked` left it.
        tables: of these streams.
        weights: of these streams.
        multiplier: of hashes.
    """
    width, places = tables.opening.shape[0], rows.numel()
    opens = tables.opening.take(added)
    lm_score, context, bias = state.lm_score, state.context, state.bias
    node, hotword, spelling = state.node, state.hotword, state.spelling
    if tables.with_words:
        # Where the word closes both are what it is if the word ends.
        complete = rows + places
        both = torch.stack([torch.where(opens, complete, rows), complete])
        prior, lm_score, context = state.prior.take(both), lm_score.take(both), context.take(both)
        prior.select(0, 1).masked_fill_(weights.unscored.gather(1, added), -math.inf)
        node = torch.add(added, node.take(rows), alpha=width)
        node = tables.lexicon.following.take(node).long()
    else:
        prior = state.prior.take(torch.stack([rows, rows + places]))
    if tables.with_hotwords:
        hotword = hotword.take(rows)
        done = tables.hotwords.done.take(hotword).mul_(opens)
        prior.add_(done)
        bias = bias.take(rows).add_(done)
        hotword = torch.add(added, hotword, alpha=width)
        hotword = tables.hotwords.following.take(hotword).long()
    if tables.prune_history:
        spelling = spelling.take(rows)
        longer = torch.add(added, spelling.masked_fill(opens, 0), alpha=multiplier)
        spelling = torch.where(extended, longer, spelling)
    return FusionState(prior, lm_score, context, bias, node, hotword, spelling)


def superseded(
    state: FusionState, in_blank: Tensor, tables: FusionTables, weights: FusionWeights
) -> Tensor:
    """Return which prefixes differ from a better one only in what no score depends on any more.

    Args:
        state: of prefixes, the best first.
        in_blank: bool `[B, K]`: the prefix ends in a blank.
        tables: of these streams.
        weights: of these streams.

    Returns:
        bool `[B, K]`.
    """
    # Sums of large odd multiples wrap around: different parts do not make equal keys.
    key = torch.add(state.spelling, state.context.select(0, 0), alpha=5555116246627715051)
    if tables.with_hotwords:
        key = torch.add(key, state.hotword, alpha=7319936632422683419)
    key = torch.add(key, in_blank, alpha=3202034522624059733)
    same = key.unsqueeze(2) == key.unsqueeze(1)
    return same.logical_and_(weights.earlier).any(2)
