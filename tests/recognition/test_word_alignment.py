"""The alignment against all alignments that there are, and by hand."""

import random
from difflib import SequenceMatcher
from itertools import combinations

import pytest

from conch.recognition.word_alignment import ALONE, DIFFERENT, FAR_S, NEAR_S, align, is_same
from conch.wire.result import Word


def spoken(text: str, start: float = 0.0) -> list[Word]:
    """Return a word each half second."""
    items = enumerate(text.split())
    return [Word(item, start + index / 2, start + index / 2 + 0.4, 0.9) for index, item in items]


def paired_cost(word: Word, other: Word, time_weight: float) -> float:
    apart = abs((word.start + word.end) / 2 - (other.start + other.end) / 2)
    late = time_weight * min(FAR_S, max(0.0, apart - NEAR_S))
    ratio = SequenceMatcher(None, word.text, other.text, autojunk=False).ratio()
    return late if word.text == other.text else DIFFERENT + 1 - ratio + late


def cost(words, others, pairs, end, time_weight) -> float:
    alone = len(words) + end - 2 * len(pairs)
    paired = (paired_cost(words[i], others[j], time_weight) for i, j in pairs)
    return ALONE * alone + sum(paired)


def least_cost(words, others, time_weight) -> float:
    costs = []
    for end in range(len(others) + 1):
        for size in range(min(len(words), end) + 1):
            for own in combinations(range(len(words)), size):
                for other in combinations(range(end), size):
                    pairs = list(zip(own, other, strict=True))
                    costs.append(cost(words, others, pairs, end, time_weight))
    return min(costs)


@pytest.mark.parametrize("time_weight", [0.0, 0.3, 0.7])
def test_no_alignment_costs_less(time_weight):
    rng = random.Random(7)

    def some() -> list[Word]:
        starts = sorted(rng.uniform(0, 4) for _ in range(rng.randrange(6)))
        letters = "".join(rng.choices("ab", k=1))
        return [
            Word(letters + "".join(rng.choices("abc", k=2)), at, at + rng.uniform(0.1, 0.6), 0.9)
            for at in starts
        ]

    for _ in range(60):
        words, others = some(), some()
        pairs, end = align(words, others, time_weight)
        found = sorted(pairs.items())
        assert [j for _, j in found] == sorted(set(pairs.values()))  # in order
        assert all(j < end for _, j in found)
        assert cost(words, others, found, end, time_weight) == pytest.approx(
            least_cost(words, others, time_weight)
        )


def test_words_are_aligned_with_the_beginning_of_the_others():
    words, others = spoken("the cat sat"), spoken("THE Cat, sat on the mat.")
    assert align(words, others, 0.7) == ({0: 0, 1: 1, 2: 2}, 3)
    assert align([], others, 0.7) == ({}, 0)
    assert align(words, [], 0.7) == ({}, 0)


def test_a_word_that_one_model_lacks_is_alone():
    whole, lacking = spoken("one two three four"), spoken("one two three four")
    del lacking[1]
    assert align(whole, lacking, 0.7) == ({0: 0, 2: 1, 3: 2}, 3)
    assert align(lacking, whole, 0.7) == ({0: 0, 1: 2, 2: 3}, 4)


def test_times_tell_equal_words_apart():
    others = [*spoken("no"), *spoken("no", 2.0), *spoken("no", 4.0)]
    assert align(others[1:], others, 0.7) == ({0: 1, 1: 2}, 3)
    # Without times, the first ones will do.
    assert align(others[1:], others, 0.0) == ({0: 0, 1: 1}, 2)


def test_a_new_word_before_the_last_one_does_not_leave_that_one_alone():
    words = [spoken("the house and there")[index] for index in (0, 1, 3)]
    assert align(words, spoken("the house and there we"), 0.3) == ({0: 0, 1: 1, 2: 3}, 4)


def test_a_word_that_was_heard_otherwise_is_still_the_same_place():
    words, others = spoken("a tigre burns"), spoken("a tiger burned bright")
    assert align(words, others, 0.7) == ({0: 0, 1: 1, 2: 2}, 3)


@pytest.mark.parametrize(
    ("text", "other", "same"),
    [
        ("Don't,", "dont", True),
        ("naïve", "NAÏVE.", True),
        ("it", "its", False),
        ("हिन्दी।", "हिन्दी", True),
    ],
)
def test_the_same_word_has_the_same_letters(text, other, same):
    assert is_same(Word(text, 0, 1, 0.9), Word(other, 5, 6, 0.1)) is same
