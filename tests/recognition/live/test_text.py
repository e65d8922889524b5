"""What becomes firm, what is shown and what is not believed, on passes made by hand."""

import math
import random
from dataclasses import replace
from itertools import accumulate

import pytest

from conch.recognition.live.text import CONTEXT_S, CUT_S, LiveText, is_credible, whole_words
from conch.wire.result import Word, text_of_words

EACH_S, SAID_S = 0.5, 0.4


def spoken(text: str, first: int = 0) -> tuple[Word, ...]:
    """Return words of 0.4 s, one each half second; the first one is the utterance's `first`."""
    items = enumerate(text.split(), first)
    return tuple(Word(item, n * EACH_S, n * EACH_S + SAID_S, 0.9) for n, item in items)


def end_of(words) -> float:
    return words[-1].end + 0.3


def passed(text: LiveText, words: str, ctc: str = "", first: int = 0) -> LiveText:
    """Return a text after a pass that begins with the word of number `first`."""
    said = spoken(words, first)
    heard = spoken(ctc, first)
    ends = end_of(said) if said else text.pass_end_s + 1.0
    return text.after_pass(said, first * EACH_S, ends, heard)


def parts(text: LiveText) -> tuple[str, str]:
    return text_of_words(text.firm), text_of_words(text.tentative)


def after(*passes: str) -> tuple[str, str]:
    text = LiveText()
    for said in passes:
        text = passed(text, said)
    return parts(text)


def test_what_two_passes_agree_on_is_firm():
    assert after("The cat sat on") == ("", "The cat sat on")
    assert after("The cat sat on", "The cat sat on the mat.") == ("The cat sat on", "the mat.")
    assert after("The cat sat on", "the Cat, sat in the") == ("the Cat, sat", "in the")
    assert after("A hat sat on", "The cat sat on the") == ("", "The cat sat on the")


def test_tentative_words_are_replaced_by_the_next_pass():
    assert after("The cat sad.", "The cat sat on a", "The cat sat on the mat") == (
        "The cat sat on",
        "the mat",
    )


def test_the_last_word_counts_only_with_its_punctuation():
    # The first sentence is not over: Whisper ended it where the audio ended.
    assert after("It rains.", "It rains") == ("It", "rains")
    assert after("It rains.", "It rains.") == ("It rains.", "")
    assert after("It rains.", "It rains in") == ("It rains", "in")


def test_the_ctc_model_seconds_words_of_a_single_pass():
    assert parts(passed(LiveText(), "The Cat, sat", "THE CAT SAT")) == ("The Cat,", "sat")
    assert parts(passed(LiveText(), "The cat sat on", "the hat sat on")) == ("The", "cat sat on")
    # Each word needs one of the two.
    text = passed(LiveText(), "The cat sat on", "the hat sat on")
    assert parts(passed(text, "The cat sat in the end", "", 0)) == ("The cat sat", "in the end")


def test_a_word_at_the_end_of_the_audio_is_not_seconded():
    said, heard = spoken("The cat sat"), spoken("the cat sat")
    # One more word, so that "sat" is not the last one.
    said = (*said, Word("o", 1.41, 1.45, 0.2))
    enough = LiveText().after_pass(said, 0.0, said[2].end + CUT_S + 0.001, heard)
    assert parts(enough) == ("The cat sat", "o")
    cut = LiveText().after_pass(said, 0.0, said[2].end + CUT_S - 0.001, heard)
    assert parts(cut) == ("The cat", "sat o")


def test_what_is_heard_in_silence_changes_no_firm_word():
    text = passed(passed(LiveText(), "The cat sat"), "The cat sat on")
    silent = passed(text, "")
    assert parts(silent) == ("The cat sat", "")
    assert silent.shown((), math.inf, in_speech=False) == ((), ())
    assert silent.pass_end_s > text.pass_end_s
    # The pass after finds the words again, behind the firm ones.
    assert parts(passed(silent, "The cat sat on the mat")) == ("The cat sat", "on the mat")


def test_a_pass_begins_with_some_firm_text():
    assert LiveText().window_start(1.25) == 1.25
    firm = spoken(" ".join("abcdefghij"))
    short = LiveText(firm=firm[:4])
    assert short.window_start(0.0) == 0.0
    long = LiveText(firm=firm)
    start = long.window_start(0.0)
    assert firm[-1].end - CONTEXT_S - EACH_S <= start <= firm[-1].end - CONTEXT_S
    # A whole word, with some audio before it.
    assert [word.start for word in firm if start < word.start < start + 0.1] == [start + 0.05]
    assert long.window_start(start + 1) == start + 1


TRUTH = (
    "We went up the long hill to the old house and there we saw that nobody nobody at all "
    "was in the garden so we went back down to the river and had our tea"
)


def noisy(words, rng: random.Random, rate: float) -> tuple[Word, ...]:
    """Return words with times that are a little off, and some words wrong, lost or new."""
    found: list[Word] = []
    for word in words:
        drawn = rng.random()
        shift = rng.uniform(-0.1, 0.1)
        word = replace(word, start=max(0.0, word.start + shift), end=word.end + shift)
        if drawn < rate:
            word = replace(word, text=rng.choice(["hum", "gulp", "zig", word.text[:-1] or "x"]))
        if rate <= drawn < 1.5 * rate:
            continue
        found.append(word)
        if drawn > 1 - rate / 2:
            found.append(replace(word, text="erm", start=word.end, end=word.end + 0.05))
    return tuple(found)


def heard_words(begins: float, ends: float) -> tuple[Word, ...]:
    """Return the words of the truth in some audio; what is left of a cut one is a word, too."""
    found = []
    for word in spoken(TRUTH):
        if begins - 0.01 <= word.start and word.start + 0.1 < ends:
            is_cut = word.end > ends
            text = word.text[: max(1, len(word.text) // 2)] if is_cut else word.text
            found.append(replace(word, text=text, end=min(word.end, ends)))
    return tuple(found)


def live(rng: random.Random, rate: float, ctc_rate: float):
    """Return the texts after passes at random times, with what CTC has heard by then."""
    text, ends = LiveText(), 0.0
    ctc = noisy(spoken(TRUTH), rng, ctc_rate)
    while ends < len(TRUTH.split()) * EACH_S:
        ends += rng.uniform(0.6, 2.6)
        begins = text.window_start(0.0)
        by_then = [word for word in ctc if word.start + 0.1 < ends]
        text = text.after_pass(noisy(heard_words(begins, ends), rng, rate), begins, ends, by_then)
        yield text, by_then


@pytest.mark.parametrize("seed", range(30))
def test_firm_words_stay_and_come_once(seed):
    rng, before = random.Random(seed), LiveText()
    for text, by_then in live(rng, rate=0.1, ctc_rate=0.15):
        assert text.firm[: len(before.firm)] == before.firm
        assert text.window_start(0.0) >= before.window_start(0.0) - 2 * 0.1  # times are off
        tentative, newest = text.shown(by_then, text.pass_end_s, in_speech=True)
        assert len(tentative) <= len(text.tentative)
        shown = [*text.firm, *tentative, *newest]
        # Whatever the errors, about as many words as were said.
        said = len(heard_words(0.0, text.pass_end_s))
        assert abs(len(shown) - said) <= 2 + 0.3 * said
        before = text


@pytest.mark.parametrize("seed", range(20))
def test_without_errors_every_word_is_there_once(seed):
    truth = TRUTH.split()
    for text, _ in live(random.Random(seed), rate=0.0, ctc_rate=0.0):
        known = [word.text for word in (*text.firm, *text.tentative)]
        assert known[:-1] == truth[: len(known) - 1]  # the last one may be cut
        assert len(known) == len(heard_words(0.0, text.pass_end_s))
        firm = [word.text for word in text.firm]
        assert firm[:-1] == truth[: len(firm) - 1]


WHISPER = spoken("But nobody, nobody here, nobody in America's house, believes we are safe enough.")
CTC = spoken("but nobody nobody hear nobody an americas house believes were are save enough")


@pytest.mark.parametrize("apart", [-0.15, 0.0, 0.15])
def test_at_every_cut_the_newest_words_follow_the_others(apart):
    ctc = tuple(replace(word, start=word.start + apart, end=word.end + apart) for word in CTC)
    for heard in range(1, len(WHISPER) + 1):
        text = LiveText().after_pass(WHISPER[:heard], 0.0, heard * EACH_S + 0.1, ())
        for length in range(heard, len(CTC) + 1):
            until = length * EACH_S + 0.2
            tentative, newest = text.shown(ctc[:length], until, in_speech=True)
            expected = [*WHISPER[:heard], *ctc[heard:length]]
            found = [word.text.rstrip(".") for word in (*tentative, *newest)]
            assert found == [word.text.rstrip(".") for word in expected]


def test_of_a_word_that_the_pass_heard_in_part_the_newest_text_is_shown():
    said = (*spoken("wait"), Word("un", 0.5, 0.6, 0.3))
    text = LiveText().after_pass(said, 0.0, 0.65, ())
    ctc = (*spoken("wait"), Word("until", 0.5, 0.95, 0.9))
    tentative, newest = text.shown(ctc, 1.2, in_speech=True)
    assert [word.text for word in (*tentative, *newest)] == ["wait", "until"]
    # A firm word stays in any case.
    firm = LiveText(firm=said, pass_end_s=0.65)
    assert firm.shown(ctc, 1.2, in_speech=True) == ((), ())


def test_the_end_of_a_sentence_is_shown_where_nobody_goes_on():
    text = LiveText().after_pass(spoken("It rains."), 0.0, 1.2, ())
    ctc = spoken("it rains in")
    assert text_of_words(text.shown(ctc[:2], 1.2, in_speech=True)[0]) == "It rains"
    assert text_of_words(text.shown(ctc[:2], 1.2, in_speech=False)[0]) == "It rains."
    assert [text_of_words(part) for part in text.shown(ctc, 1.9, in_speech=False)] == [
        "It rains",
        "in",
    ]


def test_before_the_first_pass_the_ctc_models_whole_words_are_shown():
    ctc = spoken("it rains")
    assert LiveText().shown(ctc, ctc[-1].end + 0.05, in_speech=True) == ((), ctc[:1])
    assert LiveText().shown(ctc, ctc[-1].end + 0.2, in_speech=True) == ((), ctc)
    assert LiveText().shown((), 1.0, in_speech=True) == ((), ())
    assert list(whole_words(ctc, math.inf)) == list(ctc)


@pytest.mark.parametrize(
    ("text", "credible"),
    [
        ("It rains and rains and rains in the old town", True),
        ("Call four four four four now", True),
        ("So four four four four four six", True),  # as much as a number may repeat
        ("So four four four four four four", False),
        ("and then and then and then", True),
        ("and then and then and then and then", False),
        ("a b c d a b c d a b c d A, b, C d.", False),
        ("", True),
    ],
)
def test_a_text_that_repeats_itself_is_not_believed(text, credible):
    words = spoken(text)
    assert is_credible(words, 0.0, 0.5 * len(words) + 1, ()) is credible


def test_a_text_with_more_words_than_anybody_says_is_not_believed():
    words = tuple(Word(f"{n}", n / 50, n / 50 + 0.01, 0.9) for n in range(20))
    assert is_credible(words[:10], 0.0, 1.0, ())
    assert not is_credible(words[:11], 0.0, 1.0, ())
    assert is_credible(words[:11], 0.0, 1.2, ())


def test_a_text_that_leaves_out_most_of_what_ctc_heard_is_not_believed():
    ctc = spoken("one two three four five six")
    assert is_credible(spoken("one two three"), 0.0, 4.0, ctc)
    assert not is_credible(spoken("one two"), 0.0, 4.0, ctc)
    assert not is_credible((), 0.0, 4.0, ctc)
    # Few words may be noise, and those outside the pass's audio do not count.
    assert is_credible((), 0.0, 4.0, ctc[:3])
    assert is_credible(spoken("six", 5), 2.4, 4.0, ctc)


def test_the_times_of_firm_words_go_on():
    """Firm words of all passes in order of time, with times that are a little off."""
    for seed in range(20):
        *_, (text, _) = live(random.Random(seed), rate=0.05, ctc_rate=0.05)
        starts = [word.start for word in text.firm]
        latest = accumulate(starts, max)
        assert all(start > most - 0.5 for start, most in zip(starts, latest, strict=True))
