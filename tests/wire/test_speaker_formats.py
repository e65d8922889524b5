"""Formats that say who speaks."""

import json
from dataclasses import replace
from itertools import pairwise

from conch.wire.formats import FORMATS, to_srt, to_text, to_webvtt
from conch.wire.parts import with_turns
from conch.wire.result import Hypothesis, Segment, Transcript, Turn, Word


def segment(who: str, start: float, *texts: str) -> Segment:
    words = tuple(
        Word(text, start + index, start + index + 0.8, 0.5, who) for index, text in enumerate(texts)
    )
    best = Hypothesis(" ".join(texts), -1.0, -1.0)
    return Segment(start, start + len(texts), (best,), words, speaker=who)


SEGMENTS = (
    segment("A", 0.0, "Who", "is", "it?"),
    segment("A", 4.0, "Well?"),
    segment("B", 5.0, "<Me>,", "of", "course."),
)
TURNS = (Turn("A", 0.0, 5.25), Turn("B", 5.0, 8.0))
TALK = with_turns(
    Transcript((Hypothesis("Who is it? Well? <Me>, of course.", -3, -3),), SEGMENTS, 8.0, (), {}),
    TURNS,
)


def test_text_has_a_line_for_each_turn() -> None:
    assert to_text(TALK) == "A: Who is it? Well?\nB: <Me>, of course.\n"


def test_a_cue_has_one_speaker() -> None:
    blocks = to_srt(TALK).strip().split("\n\n")
    assert [block.split("\n")[2] for block in blocks] == [
        "A: Who is it?",
        "Well?",
        "B: <Me>, of course.",
    ]
    voices = [line for line in to_webvtt(TALK).split("\n") if line.startswith("<v ")]
    assert voices[0].startswith("<v A>Who is it?")
    assert voices[-1] == "<v B>&lt;Me&gt;, of course."
    times = [line.split(" --> ") for line in to_webvtt(TALK).split("\n") if "-->" in line]
    assert all(end <= start for (_, end), (start, _) in pairwise(times))


def test_scorers_get_turns_and_words() -> None:
    assert FORMATS["rttm"](TALK, "talk.wav") == (
        "SPEAKER talk 1 0.000 5.250 <NA> <NA> A <NA> <NA>\n"
        "SPEAKER talk 1 5.000 3.000 <NA> <NA> B <NA> <NA>\n"
    )
    assert FORMATS["rttm"](replace(TALK, turns=()), "talk").count("\n") == 3, "of the segments"
    assert FORMATS["rttm"](replace(TALK, turns=(), segments=()), "talk") == ""
    assert json.loads(FORMATS["seglst"](TALK, "talk.wav"))[2] == {
        "session_id": "talk",
        "speaker": "B",
        "start_time": 5.0,
        "end_time": 8.0,
        "words": "<Me>, of course.",
    }
    assert "talk A B 5.000 8.000 <o> <Me>, of course.\n" in FORMATS["stm"](TALK, "talk.wav")
