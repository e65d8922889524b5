"""The text on the screen after each answer."""

from math import inf

from conch.bench.figures import shown_by
from conch.wire.result import Hypothesis, OpenUtterance, Segment, Transcript, Word
from lab.live.shown import Line, screens


def answer(
    text: str,
    *segments: Segment,
    stable: str = "",
    utterance: OpenUtterance | None = None,
    is_final: bool = False,
) -> Transcript:
    return Transcript(
        nbest=(Hypothesis(text, 0.0, 0.0),),
        segments=segments,
        duration=0.0,
        path=(),
        stages={},
        is_final=is_final,
        stable=stable,
        utterance=utterance,
    )


def segment(text: str, index: int, end: float, passes: int = 1, error: str = "") -> Segment:
    return Segment(0.0, end, (Hypothesis(text, 0, 0),), index=index, passes=passes, error=error)


def words(text: str) -> tuple[Word, ...]:
    return tuple(Word(word, 0.0, 0.0, 1.0) for word in text.split())


def open_utterance(firm: str, tentative: str = "", newest: str = "") -> OpenUtterance:
    return OpenUtterance(0.0, words(firm), words(tentative), words(newest))


def seen(*answers: Transcript, has_second_pass: bool = True):
    log = [
        shown_by(item, float(at), has_second_pass=has_second_pass)
        for at, item in enumerate(answers)
    ]
    return list(screens(log))


def test_a_second_pass_replaces_an_utterance_while_the_next_is_spoken():
    spoken = open_utterance("", "", "and")
    found = seen(
        answer("hello word", utterance=open_utterance("", "", "hello word")),
        answer("hello word", segment("hello word", 0, 2.0)),
        answer("", segment("hello word", 0, 2.0), utterance=spoken),
        answer("", segment("Hello, world!", 0, 2.0, passes=2), utterance=spoken),
        answer("Hello, world! And.", segment("And.", 1, 4.0, passes=2), is_final=True),
    )
    first = Line(("hello", "word"), 0, False)
    final = Line(("hello", "world"), 2, True)
    assert [item.lines for item in found] == [
        (first,),
        (first,),
        (first, Line(("and",), 0, False)),
        (final, Line(("and",), 0, False)),
        (final, Line(("and",), 1, True)),
    ]
    assert [item.ended_until_s for item in found] == [0.0, 2.0, 2.0, 2.0, inf]
    assert found[3].words == ["hello", "world", "and"]
    assert found[3].at_s == 3.0


def test_firm_words_are_those_of_the_open_utterance():
    done = segment("Yes.", 0, 2.0, passes=2)
    found = seen(
        answer("Yes. Up and away", done, utterance=open_utterance("Up", "and", "away")),
        answer("Yes. Up and", utterance=open_utterance("Up and")),
        answer("Yes. Up and", segment("Up and", 1, 4.0)),
    )
    assert [item.lines[1].num_firm for item in found] == [1, 2, 2]
    assert found[0].lines[1].words == ("up", "and", "away")


def test_a_text_that_begins_otherwise_is_that_of_the_open_utterance():
    # Streams without partials.
    found = seen(answer("other", segment("yes", 0, 1.0), utterance=open_utterance("up")))
    assert found[0].lines[1] == Line(("up",), 1, False)


def test_an_utterance_without_a_second_pass_is_final_with_its_error():
    found = seen(answer("up", segment("up", 0, 1.0, error="busy")))
    assert found[0].lines == (Line(("up",), 1, True),)


def test_an_open_text_may_vanish():
    found = seen(
        answer("no", utterance=open_utterance("no")), answer(""), answer("", is_final=True)
    )
    assert [item.words for item in found] == [["no"], [], []]
