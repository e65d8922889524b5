"""Word errors on the screen, lags of firm words and revisions."""

import random
import time
from math import inf

import jiwer
import pytest

from lab.alignment import TimedWord
from lab.live.screen import PrefixAligner, Revisions, firm_lags_s, revisions, screen_errors
from lab.live.shown import Line, Screen


def spoken(text: str) -> list[TimedWord]:
    """Return words of half a second, one a second: the first ends at 1 s."""
    return [
        TimedWord(word, end - 0.5, float(end)) for end, word in enumerate(text.split(), start=1)
    ]


def line(text: str, firm: int = 0, *, is_final: bool = False) -> Line:
    return Line(tuple(text.split()), firm, is_final)


def screen(at_s: float, *lines: Line, ended_until_s: float = 0.0) -> Screen:
    return Screen(at_s, lines, ended_until_s)


def last(text: str) -> list[Screen]:
    return [screen(0.0, line(text, is_final=True), ended_until_s=inf)]


def test_each_word_is_judged_once_by_what_is_shown_then():
    reference = spoken("a b c d")
    shown = [
        screen(1.5, line("a")),
        screen(2.9, line("a x")),
        screen(3.5, line("a b c")),
        screen(5.5, line("a b c d")),
    ]
    # Judged at 2, 3, 4 and 5 s: "a", "a x", "a b c", "a b c".
    assert screen_errors(reference, shown, 1.0) == 2
    # Judged at 3, 4, 5 and 6 s.
    assert screen_errors(reference, shown, 2.0) == 0
    # Judged at 1, 2, 3 and 4 s: nothing, "a", "a x", "a b c".
    assert screen_errors(reference, shown, 0.0) == 4


def test_an_answer_counts_from_when_it_came():
    reference = spoken("a")
    assert screen_errors(reference, [screen(2.0, line("a"))], 1.0) == 0
    assert screen_errors(reference, [screen(2.001, line("a"))], 1.0) == 1
    assert screen_errors(reference, [], 1.0) == 1


def test_words_inserted_before_a_word_are_its_errors():
    reference = spoken("a b c")
    shown = [screen(0.0, line("a x y b c"))]
    assert screen_errors(reference, shown, 1.0) == 2
    # Those before the first word, too, and those after the last one are no errors.
    assert screen_errors(reference, [screen(0.0, line("x a b c y y"))], 1.0) == 1


def test_words_after_the_judged_one_align_with_later_words():
    reference = spoken("a b c d e f")
    # All words are shown at once: none of those to come is an insertion.
    assert screen_errors(reference, [screen(0.0, line("a b c d e f"))], 1.0) == 0


def test_words_still_to_come_cost_nothing_but_those_of_ended_utterances_do():
    reference = spoken("a b c d e x")
    # While "x" may be a wrong "b", the words after it are still to come: "b" is the last one.
    steps = PrefixAligner([word.text for word in reference])
    assert [step.reference for step in steps.steps_back(["a", "x"])] == [1, 0]
    # The utterance has ended after the last word: four words are left out.
    assert [step.is_equal for step in steps.steps_back(["a", "x"], 6)] == [
        *(True, False, False, False, False, True)
    ]
    assert screen_errors(reference, last("a x"), 1.0) == 4
    assert screen_errors(reference, [screen(0.0, line("a x"))], 1.0) == 5


def test_a_word_spoken_before_the_end_of_an_ended_utterance_is_not_to_come():
    reference = spoken("a b c")
    ended = [screen(0.0, line("a", is_final=True), ended_until_s=2.2)]
    steps = PrefixAligner(["a", "b", "c"])
    assert [step.word for step in steps.steps_back(["a"], 2)] == [None, 0]
    assert screen_errors(reference, ended, 1.0) == 2


def errors_with_those_after_the_last_word(reference: str, shown: str) -> int:
    steps = PrefixAligner(reference.split()).steps_back(shown.split(), len(reference.split()))
    trailing = 0
    for step in steps:
        if not (step.is_inserted and step.reference == len(reference.split())):
            break
        trailing += 1
    return screen_errors(spoken(reference), last(shown), inf) + trailing


def test_in_the_end_the_errors_are_those_of_a_word_error_rate():
    rng = random.Random(0)
    for _ in range(300):
        reference = " ".join(rng.choices("abcdefg", k=rng.randint(1, 25)))
        shown = " ".join(
            word if rng.random() < 0.6 else rng.choice(["", "a", "b", f"{word} c", "d e"])
            for word in reference.split()
        )
        found = jiwer.process_words(reference, " ".join(shown.split()))
        errors = found.substitutions + found.deletions + found.insertions
        assert errors_with_those_after_the_last_word(reference, shown) == errors


def test_successive_texts_give_what_each_gives_alone():
    rng = random.Random(1)
    reference = rng.choices("abcd", k=30)
    shared = PrefixAligner(reference)
    for _ in range(100):
        words = rng.choices("abcd", k=rng.randint(0, 30))
        least = rng.randint(0, 30)
        alone = PrefixAligner(reference).steps_back(words, least)
        assert list(shared.steps_back(words, least)) == list(alone)


def test_firm_words_count_from_the_end_of_the_equal_reference_word():
    reference = spoken("a b c d")
    shown = [
        screen(1.5, line("a")),
        screen(2.5, line("a b", firm=1)),
        screen(3.5, line("a x c", firm=2)),
        screen(4.0, line("a x c d", firm=2)),
        screen(6.0, line("a b c d", firm=4, is_final=True), ended_until_s=5.0),
        screen(7.0, line("a b c d", firm=4, is_final=True), ended_until_s=inf),
    ]
    # "a" at 2.5 s; "x" equals no word; "c" and "d" with the final text.
    assert sorted(firm_lags_s(reference, shown)) == pytest.approx([1.5, 2.0, 3.0])


def test_a_second_pass_makes_words_firm_behind_a_new_utterance():
    reference = spoken("a b c")
    shown = [
        screen(2.5, line("a b"), ended_until_s=2.2),
        screen(3.5, line("a b"), line("c", firm=1), ended_until_s=2.2),
        screen(4.5, line("a b", firm=2, is_final=True), line("c", firm=1), ended_until_s=2.2),
    ]
    assert sorted(firm_lags_s(reference, shown)) == pytest.approx([0.5, 2.5, 3.5])


def test_revised_words_are_those_that_the_next_text_lacks():
    shown = [
        screen(1.0, line("a b x")),
        screen(2.0, line("a b c d", firm=2)),
        screen(3.0, line("a b c d", firm=2)),
        screen(4.0, line("a z c d", firm=4, is_final=True)),
    ]
    # "x" became "c", the firm "b" became "z"; "d" was added.
    assert revisions(shown) == Revisions(revised=2, words=4, firm_revised=1, firm=2)


def test_added_words_and_other_utterances_are_no_revisions():
    shown = [
        screen(1.0, line("a")),
        screen(2.0, line("b a c", firm=1, is_final=True)),
        screen(3.0, line("b a c", firm=1, is_final=True), line("d")),
        screen(4.0, line("b a c", firm=1, is_final=True), line("")),
    ]
    # Only "d" was removed.
    assert revisions(shown) == Revisions(revised=1, words=3, firm_revised=0, firm=0)
    assert revisions([]) == Revisions()


def test_a_minute_of_answers_takes_a_moment():
    rng = random.Random(2)
    text = [str(rng.randint(0, 300)) for _ in range(160)]
    reference = [
        TimedWord(word, 0.375 * place, 0.375 * (place + 1)) for place, word in enumerate(text)
    ]
    shown = [
        screen(0.2 * place, line(" ".join(text[: round(place * 0.2 / 0.375)])))
        for place in range(303)
    ]
    begun = time.process_time()
    assert screen_errors(reference, shown, 1.0) == 0
    firm_lags_s(reference, shown)
    revisions(shown)
    # A thousand streams would take minutes; a machine may be ten times as slow as usual.
    assert time.process_time() - begun < 2
