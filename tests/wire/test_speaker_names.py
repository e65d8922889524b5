from dataclasses import replace

import pytest
from transcripts import spoken, transcript

from conch.wire.errors import OptionError
from conch.wire.result import Overlap, Speaker, Transcript, Turn
from conch.wire.speaker_names import names_of, renamed, unknown_label, with_names


def meeting() -> Transcript:
    """A and B in segments of their own, and C in a word of B's."""
    last = replace(spoken("Of course.", 2.0), speaker="B")
    words = tuple(replace(word, speaker=who) for who, word in zip("BC", last.words, strict=True))
    segments = replace(spoken("Who is it?"), speaker="A"), replace(last, words=words)
    turns = Turn("A", 0.0, 0.9), Turn("B", 2.0, 2.3), Turn("C", 2.3, 2.6)
    return transcript(
        *segments,
        revised=segments[1:],
        turns=turns,
        relabelled=turns[2:],
        speakers=(Speaker("A", 0.9, "AAAA"), Speaker("B", 0.3), Speaker("C", 0.25)),
        overlaps=(Overlap(2.3, 2.4, ("A", "B", "C")),),
    )


def test_names_of_labels() -> None:
    assert names_of(" A = Ann B. ,B=Ben,") == {"A": "Ann B.", "B": "Ben"}
    assert names_of("") == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("A=Ann,Ben", "a part has no label or no name; sent: 'Ben'"),
        ("A=", "a part has no label or no name; sent: 'A='"),
        ("=Ann", "a part has no label or no name; sent: '=Ann'"),
        ("A=Ann,A=Ben", "the label has a name already; sent: 'A=Ben'"),
        ("A=" + "x" * 61, "a name takes at most 60 characters; sent: 'A=xxx"),
        ("A=a\nb", "a name is a text of printable characters"),
    ],
)
def test_a_wrong_name_is_told(text: str, problem: str) -> None:
    with pytest.raises(OptionError) as raised:
        names_of(text)
    assert str(raised.value).startswith("option 'speaker_names' takes labels with names, as A=Ann")
    assert problem in str(raised.value)


def test_names_are_everywhere_and_one_name_is_one_speaker() -> None:
    named = renamed(meeting(), {"A": "Ann", "B": "Ben", "C": "Ben"})
    assert [segment.speaker for segment in named.segments] == ["Ann", "Ben"]
    assert [segment.speaker for segment in named.revised] == ["Ben"]
    assert [word.speaker for word in named.segments[1].words] == ["Ben", "Ben"]
    assert [turn.speaker for turn in named.turns] == ["Ann", "Ben", "Ben"]
    assert [turn.speaker for turn in named.relabelled] == ["Ben"]
    assert named.speakers == (Speaker("Ann", 0.9, "AAAA"), Speaker("Ben", 0.55))
    assert named.overlaps == (Overlap(2.3, 2.4, ("Ann", "Ben")),)


def test_who_has_no_name_keeps_the_label() -> None:
    plain = transcript(spoken("Hello."))
    assert renamed(plain, {"A": "Ann"}) == plain
    assert renamed(meeting(), {}) == meeting()
    assert [item.speaker for item in renamed(meeting(), {"B": "A"}).turns] == ["A", "A", "C"]


def test_a_label_that_nobody_has_is_told() -> None:
    names = {"A": "Ann", "C": "Cem", "D": "Dee"}
    assert unknown_label(meeting(), {"C": "Cem"}) == ""
    problem = unknown_label(meeting(), names)
    assert problem == (
        "option 'speaker_names' names the speaker D, whom this transcript lacks; its speakers: "
        "A, B, C; sent: 'D=Dee'"
    )
    assert "its speakers: none; sent" in unknown_label(transcript(spoken("Hi.")), names)
    assert with_names(meeting(), names).warnings == (problem,)
    assert with_names(meeting(), names).segments[0].speaker == "Ann"
    assert with_names(meeting(), {}) == meeting()
