"""The search on decoders that fit into a table, against all texts there are."""

import math
from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_by_one import alone

from conch.families.moonshine import END
from conch.families.moonshine.network import Advance, DecoderStep
from conch.families.moonshine.search import (
    MORE_TOKENS,
    TOKENS_PER_S,
    Searched,
    beam_search,
    greedy_search,
)

OTHERS = (0, 1, 3, 4)
"""Tokens that a text may have; 1 is the start of each text too, 2 its end."""
SIZE = 5


class Table:
    """Hypotheses of a decoder whose next token depends on the last one and its place."""

    def __init__(self, log_probs: np.ndarray) -> None:
        self.log_probs = log_probs
        self.length = 0
        self.num_steps = 0

    def advance(self, ids, num_best, targets=None):
        self.num_steps += 1
        places = self.length + np.arange(len(ids[0]))
        self.length = int(places[-1]) + 1
        rows = self.log_probs[np.minimum(places, len(self.log_probs) - 1), np.array(ids)]
        best = np.argsort(-rows, axis=-1, kind="stable")[..., :num_best]
        found = np.take_along_axis(rows, best, axis=-1)
        attention = np.broadcast_to(places[:, None].astype(np.float32), (*rows.shape[:2], 3))
        wanted = np.take_along_axis(rows, np.array(targets or ids)[..., None], axis=-1)[..., 0]
        return Advance(found, best, wanted, attention)

    def keep(self, num_tokens):
        self.length = num_tokens


def searched(table: Table, *args, by=beam_search, **options) -> Searched:
    """Return what a search finds that makes its steps by itself."""

    def advance(steps: Sequence[DecoderStep]) -> list[Advance]:
        return [table.advance(step.ids, step.num_best, step.targets) for step in steps]

    def search():
        found = yield from by(table, *args, **options)
        return lambda: found

    return alone(search(), advance)


def table_of(seed: int, places: int = 4) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(0, 2, (places, SIZE, SIZE))
    return (logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)).astype(np.float32)


def texts_of(end) -> tuple[int, ...]:
    return tuple(token.id for token in end)


def seconds_for(tokens: int) -> float:
    return (tokens - MORE_TOKENS + 0.5) / TOKENS_PER_S


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_beam_of_all_texts_finds_the_best_of_all(seed):
    table = table_of(seed)
    averages = {}
    for length in range(1, 4):
        for text in product(OTHERS, repeat=length):
            ids = (1, *text, END)
            total = sum(table[at, one, two] for at, (one, two) in enumerate(pairwise(ids)))
            averages[ids[1:]] = total / (len(ids) - 1)
    found = searched(Table(table), 200, seconds_for(4), pruned=math.inf)
    complete = [end for end in found.ended if end.id == END]
    assert texts_of(complete[0]) == max(averages, key=averages.__getitem__)
    for end in complete:
        assert end.average == pytest.approx(averages[texts_of(end)], abs=1e-4)
        assert sum(token.log_prob for token in end) == pytest.approx(end.total, abs=1e-4)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.5, 4.0))
def test_hypotheses_far_behind_the_best_one_are_dropped(seed, pruned):
    table = table_of(seed)
    every = searched(Table(table), 200, seconds_for(4), pruned=math.inf).ended
    few = searched(Table(table), 200, seconds_for(4), pruned=pruned).ended
    complete = {texts_of(end) for end in few if end.id == END}
    assert complete <= {texts_of(end) for end in every}
    totals = [end.total for end in few]
    assert totals
    assert max(totals) - min(totals) <= pruned + 1e-6


def test_a_text_follows_where_none_would_be_more_probable_by_far():
    table = np.full((2, SIZE, SIZE), -12.0, np.float32)
    table[0, 1, END] = -1e-5
    table[0, 1, 3] = -11.0
    table[1, :, END] = -1e-5
    found = searched(Table(table), 5, seconds_for(4), pruned=1.0)
    assert texts_of(found.ended[0]) == (3, END)
    assert found.wanted_nothing == pytest.approx(-1e-5)


@given(st.integers(0, 2**32 - 1))
def test_a_beam_of_one_takes_the_best_token_each_time(seed):
    table = table_of(seed)
    ids, expected = 1, []
    for at in range(6):
        row = table[min(at, len(table) - 1), ids].copy()
        if at == 0:
            row[END] = -np.inf
        ids = int(row.argmax())
        expected.append(ids)
        if ids == END:
            break
    found = searched(Table(table), 1, seconds_for(6))
    assert texts_of(found.ended[0]) == tuple(expected)
    assert (found.wanted_nothing is not None) == (table[0, 1].argmax() == END)


def continued(table: np.ndarray, tokens: int, said=(), draft=(), run=0) -> Searched:
    return searched(Table(table), seconds_for(tokens), draft, said, run, by=greedy_search)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from((0, 1, 3, 4)), max_size=8))
def test_a_draft_changes_no_text(seed, draft):
    table = table_of(seed)
    plain = searched(Table(table), 1, seconds_for(6))
    greedy = texts_of(plain.ended[0])
    for tried in (draft, [*greedy[: len(draft)], *draft], [*filter(END.__ne__, greedy)], []):
        drafted = continued(table, 6, draft=tried)
        assert drafted.wanted_nothing == plain.wanted_nothing
        assert texts_of(drafted.ended[0]) == greedy
        for one, other in zip(drafted.ended[0], plain.ended[0], strict=True):
            assert one.total == other.total
            assert one.attention.tolist() == other.attention.tolist()


@settings(deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from(OTHERS), min_size=1, max_size=4),
    st.lists(st.sampled_from(OTHERS), max_size=6),
)
def test_a_text_goes_on_from_what_was_said(seed, said, draft):
    table = table_of(seed)
    ids, expected = said[-1], list(said)
    while len(expected) < 7:
        ids = int(table[min(len(expected), len(table) - 1), ids].argmax())
        expected.append(ids)
        if ids == END:
            break
    found = continued(table, 7, said, draft)
    assert texts_of(found.ended[0]) == tuple(expected)
    assert found.wanted_nothing is None
    for place, (before, token) in enumerate(pairwise((1, *expected))):
        [*tokens] = found.ended[0]
        assert tokens[place].log_prob == table[min(place, len(table) - 1), before, token]


def test_what_was_said_may_fill_a_window():
    found = continued(table_of(1), 3, said=[0, 3, 4, 1, 0, 4])
    assert texts_of(found.ended[0])[:6] == (0, 3, 4, 1, 0, 4)
    assert found.ended[0].length == 7


@pytest.mark.parametrize(
    ("draft", "steps"),
    [
        ([*range(4, 20)], 1),
        ([3, *range(5, 20)], 5),
        ([*range(4, 10), 3, *range(10, 20)], 3),
        ([*range(4, 10), *range(12, 20)], 5),
        ([*range(4, 10), 3, 3, 3, *range(12, 20)], 5),
        ([], 17),
    ],
    ids=["right", "another first", "one too many", "two left out", "three wrong", "none"],
)
def test_a_draft_is_tried_again_behind_a_token_that_was_not_chosen(draft, steps):
    table = np.full((17, 20, 20), -10.0, np.float32)
    for place, item in enumerate([*range(4, 20), END]):
        table[place, :, item] = -0.1
    one = Table(table)
    found = searched(one, seconds_for(30), draft, by=greedy_search)
    assert texts_of(found.ended[0]) == (*range(4, 20), END)
    assert one.num_steps == steps


def test_behind_the_draft_a_text_ends_before_a_run_that_comes_three_times():
    table = np.full((1, SIZE, SIZE), -10.0, np.float32)
    table[0, 1, 4] = table[0, 4, 0] = table[0, 0, 3] = table[0, 3, 0] = -0.1  # 4 0 3 0 3 …
    whole = (4, 0, 3, 0, 3, 0, 3, 0, 3)
    assert texts_of(continued(table, 9).ended[0]) == whole
    cut = continued(table, 9, run=3).ended[0]
    assert texts_of(cut) == (4, 0, 3, END)
    assert cut.attention.tolist() == [3] * 3  # where the run comes again
    assert texts_of(continued(table, 7, run=3).ended[0]) == whole[:7]  # it has come only twice
    assert texts_of(continued(table, 9, said=whole[:4], run=3).ended[0]) == (*whole[:4], END)
    assert texts_of(continued(table, 9, draft=whole, run=3).ended[0]) == whole


def test_a_draft_that_was_left_early_keeps_what_it_repeats():
    """The draft has another first token, and less of it is tried at a time than is repeated."""
    said = [5, 6, 7, 8, 9, 5, 6, 7, 8, 9, 5, 6, 7, 8, 9]
    table = np.full((len(said) + 1, 20, 20), -10.0, np.float32)
    for place, item in enumerate([*said, END]):
        table[place, :, item] = -0.1
    found = continued(table, 30, draft=[3, *said[1:]], run=3)
    assert texts_of(found.ended[0]) == (*said, END)


def test_tokens_know_where_they_were_heard():
    found = searched(Table(table_of(3)), 2, seconds_for(5))
    for number, token in enumerate(found.ended[0]):
        assert token.attention.tolist() == [number] * 3
        assert token.length == number + 1


def test_a_text_that_never_ends_is_cut_and_repeats_no_run():
    table = np.full((1, SIZE, SIZE), -10.0, np.float32)
    table[0, 1, 0] = table[0, 0, 3] = table[0, 3, 0] = -0.1  # 0 3 0 3 …
    table[0, :, 4] = -1.0
    looping = searched(Table(table), 1, seconds_for(9))
    assert texts_of(looping.ended[0]) == (0, 3, 0, 3, 0, 3, 0, 3, 0)
    ids = texts_of(searched(Table(table), 2, seconds_for(9), no_repeat=3).ended[0])
    runs = [ids[at : at + 3] for at in range(len(ids) - 2)]
    assert len(runs) == len(set(runs))


def test_a_text_ends_where_all_that_could_follow_would_repeat_a_run():
    """Behind 0 1 came 3 and 4, which are the only likely tokens there again."""
    said = (0, 1, 3, 0, 1, 4, 0, 1)
    table = np.full((len(said) + 1, SIZE, SIZE), -10.0, np.float32)
    for place, item in enumerate(said):
        table[place, :, item] = -0.1
    table[-1, :, 3], table[-1, :, 4] = -0.1, -0.2
    found = searched(Table(table), 1, seconds_for(20), no_repeat=3)
    assert texts_of(found.ended[0]) == said
