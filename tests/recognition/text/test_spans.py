"""Texts and the times of their words, followed through changes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.recognition.text.spans import Change, Rewritten, replaced, retimed, rewritten
from conch.wire.replacements import read_replacements
from conch.wire.result import Word, text_of_words

A, B, C = Word("new", 1.0, 1.2, 0.9), Word("york", 1.3, 1.6, 0.5), Word("city", 1.7, 2.0, 0.8)


def timed(text: str, start: float = 0.0) -> tuple[Word, ...]:
    """Return the words of a text, a second each, half a second apart."""
    return tuple(
        Word(word, start + 1.5 * i, start + 1.5 * i + 1, 0.9 - i / 100)
        for i, word in enumerate(text.split())
    )


def after_rules(text: str, rules: str) -> Rewritten:
    read = read_replacements(rules)
    assert read is not None
    return replaced(text, read)


def spans(*rows: tuple[int, int, int, int]) -> np.ndarray:
    return np.array(rows, np.int32).reshape(-1, 4)


@pytest.mark.parametrize(
    ("text", "rules", "wanted"),
    [
        ("the CONCH and a conch.", "conch=>Conch", "the Conch and a Conch."),
        ("new york city, new york", "new york=>NY; new york city=>NYC", "NYC, NY"),
        ("new   york", "new york=>NY", "NY"),
        # Not within words, and punctuation at their edges stays.
        ("conches and conch's", "conch=>Conch", "conches and Conch's"),
        ('"Conch," he said', "conch=>Triton", '"Triton," he said'),
        # Not applied twice.
        ("a b", "a=>b; b=>a", "b a"),
        # What becomes nothing takes a space along.
        ("um yes um, well um", "um=>", "yes, well"),
        # Scripts without spaces have no edges of words.
        ("我住在紐約市裡", "紐約市=>纽约市", "我住在纽约市裡"),
        ("c plus plus is fine", "c plus plus=>C++", "C++ is fine"),
        ("C++ is C", "c++=>c plus plus", "c plus plus is C"),
        ("stra\u017fse \u212a", "strasse=>Straße; k=>kay", "Straße kay"),
        # Signs and accents that stand alone are parts of words.
        ("की कीमत", "की=>X; क=>Y", "X कीमत"),
        ("cafe\u0301 cafe", "cafe=>X", "cafe\u0301 X"),
        ("\u0130zmir i\u0307zmir", "\u0130zmir=>Smyrna", "Smyrna i\u0307zmir"),
        # A word ends where a script without spaces begins.
        ("我的iphone很好, iphones", "iphone=>iPhone; 很好=>好", "我的iPhone好, iphones"),
        ("ภาษาไทย", "ไทย=>Thai", "ภาษาThai"),
        ("nothing here", "conch=>Conch", "nothing here"),
    ],
)
def test_rules_find_whole_words_whatever_their_case(text, rules, wanted):
    after = after_rules(text, rules)
    assert after.text == wanted
    assert rewritten(text, after.text, spans(*after.changes)) == after


def test_words_that_become_one_last_from_the_first_to_the_last():
    text = "in new york city today"
    words = (Word("in", 0.5, 0.9, 0.7), A, B, C, Word("today", 2.1, 2.4, 1.0))
    found = retimed(words, text, after_rules(text, "new york city=>NYC"))
    assert found == (words[0], Word("NYC", 1.0, 2.0, 0.5), words[4])


def test_a_word_that_becomes_several_shares_its_time_by_length():
    words = (Word("nyc", 1.0, 2.0, 0.5),)
    (one, other) = retimed(words, "nyc", after_rules("nyc", "nyc=>New York"))
    assert (one.text, one.start, one.confidence) == ("New", 1.0, 0.5)
    assert (other.text, other.end, other.confidence) == ("York", 2.0, 0.5)
    assert one.end <= other.start and one.end == pytest.approx(1.375)


def test_deleted_words_leave_a_gap_and_the_others_as_they_are():
    text = "new york city"
    assert retimed((A, B, C), text, after_rules(text, "york=>")) == (A, C)
    assert retimed((A, B, C), text, after_rules(text, text + "=>")) == ()


def test_punctuation_and_case_keep_the_times():
    text = "new york city"
    after = rewritten(
        text, "New York, city.", spans((0, 1, 0, 1), (4, 5, 4, 5), (8, 8, 8, 9), (13, 13, 14, 15))
    )
    found = retimed((A, B, C), text, after)
    assert [word.text for word in found] == ["New", "York,", "city."]
    assert [(word.start, word.end) for word in found] == [(1.0, 1.2), (1.3, 1.6), (1.7, 2.0)]
    assert [word.confidence for word in found] == [0.9, 0.5, 0.8]


def test_a_word_from_nothing_fills_the_gap():
    after = rewritten("new york", "very new old york", spans((0, 0, 0, 5), (4, 4, 9, 13)))
    found = retimed((A, B), "new york", after)
    assert [word.text for word in found] == ["very", "new", "old", "york"]
    assert (found[0].start, found[0].end) == (1.0, 1.0)
    assert (found[2].start, found[2].end, found[2].confidence) == (1.2, 1.3, 0.5)
    after = rewritten("new york", "x y", spans((0, 8, 0, 0), (8, 8, 0, 3)))
    assert [(word.text, word.start, word.end) for word in retimed((A, B), "new york", after)] == [
        ("x", 1.0, 1.3),
        ("y", 1.3, 1.6),
    ]


def test_words_without_spaces_stay_apart():
    words = tuple(Word(text, i, i + 1, 0.9) for i, text in enumerate(("今天", "天气", "很好")))
    text = text_of_words(words)
    assert text == "今天天气很好"
    after = rewritten(text, "今天、天气很好。", spans((2, 2, 2, 3), (6, 6, 7, 8)))
    found = retimed(words, text, after)
    assert [word.text for word in found] == ["今天、", "天气", "很好。"]
    assert [(word.start, word.end) for word in found] == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize(
    ("new", "rows", "problem"),
    [
        ("ax", np.zeros((1, 3), np.int32), "spans are integers"),
        ("ax", np.zeros((1, 4), np.float32), "spans are integers"),
        (
            "ax",
            [(0, 1, 0, 1)],
            "characters 1 to 2 of the text that was sent are not 1 to 2 of the new",
        ),
        ("abc", [], "characters 0 to 2 of the text that was sent are not 0 to 3 of the new"),
        ("ax", [(1, 3, 1, 2)], "not in order, or outside"),
        ("ax", [(-1, 2, 0, 2)], "not in order, or outside"),
        ("ab", [(1, 2, 1, 2), (0, 1, 0, 1)], "not in order, or outside"),
        ("ab", [(2, 1, 1, 1)], "not in order, or outside"),
        ("ab", [(0, 0, 0, 0)] * 2001, "at most 2000 spans; has: 2001"),
    ],
)
def test_what_is_no_answer_of_a_text_step_is_refused(new, rows, problem):
    rows = rows if isinstance(rows, np.ndarray) else spans(*rows)
    with pytest.raises(ValueError) as refused:
        rewritten("ab", new, rows)
    assert problem in str(refused.value)


ALIKE = settings(derandomize=True, deadline=None, database=None)
"""The same examples each time, however slow the machine."""
LETTERS = st.text(alphabet="ab ,今é", max_size=5)


@st.composite
def changed(draw: st.DrawFn) -> tuple[str, Rewritten]:
    """Draw a text of words, and any changes of it."""
    kept = draw(st.lists(LETTERS, min_size=1, max_size=6))
    old, new, changes = kept[0], kept[0], []
    for piece in kept[1:]:
        was, becomes = draw(LETTERS), draw(LETTERS)
        changes.append(Change(len(old), len(old) + len(was), len(new), len(new) + len(becomes)))
        old, new = old + was + piece, new + becomes + piece
    return old, Rewritten(new, tuple(changes))


@ALIKE
@given(changed())
def test_words_of_any_changed_text_are_in_order_inside_and_all_there(example):
    old, after = example
    assert rewritten(old, after.text, spans(*after.changes)) == after
    words = timed(old, start=2.0)
    found = retimed(words, old, after)
    if words:
        assert "".join(word.text for word in found) == "".join(after.text.split())
        assert text_of_words(found).split() == after.text.split() or "今" in after.text
    else:
        assert found == ()
    for word in found:
        assert words[0].start <= word.start <= word.end <= words[-1].end
        assert words[-1].confidence <= word.confidence <= words[0].confidence
    for one, other in itertools.pairwise(found):
        assert one.start <= other.start and one.end <= other.end


@ALIKE
@given(st.lists(st.sampled_from(["ab", "c", "dé,"]), max_size=6), st.data())
def test_what_a_change_does_not_touch_keeps_its_word(texts, data):
    old = " ".join(texts)
    words = timed(old)
    index = data.draw(st.integers(0, max(0, len(texts) - 1)))
    if not texts:
        return
    start = len(" ".join([*texts[:index], ""])) if index else 0
    end = start + len(texts[index])
    new = data.draw(st.sampled_from(["", "x", "x y", "longer"]))
    after = Rewritten(old[:start] + new + old[end:], (Change(start, end, start, start + len(new)),))
    found = retimed(words, old, after)
    count = len(new.split())
    assert found[:index] == words[:index]
    assert found[index + count :] == words[index + 1 :]
    assert all(words[index].start <= word.start for word in found[index : index + count])
    assert all(word.end <= words[index].end for word in found[index : index + count])
