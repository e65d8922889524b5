"""Labels of words and segments: pure functions, and requests on plain components."""

from dataclasses import replace

import numpy as np
import pytest
from plain_labels import MODELS, SPOKEN, answer, file_of
from plain_streams import audio

from conch.families.speakers.assignment import SegmentAnalysis
from conch.families.speakers.labels import labelled, name_of, voices_of
from conch.families.speakers.pieces import num_frames
from conch.wire.errors import OptionError
from conch.wire.formats import FORMATS
from conch.wire.known_speakers import option_of
from conch.wire.parts import joined_parts, with_turns
from conch.wire.result import Hypothesis, Overlap, Segment, Speaker, Transcript, Turn, Word
from conch.wire.turns import other_turns, speaker_of

TURNS = [Turn("A", 0.0, 2.0), Turn("B", 1.5, 4.0), Turn("A", 6.0, 7.0)]


def segment(*words: tuple[str, float, float], **fields) -> Segment:
    found = tuple(Word(text, start, end, 0.9) for text, start, end in words)
    text = " ".join(word.text for word in found)
    best = Hypothesis(text, -6.0, -3.0, num_words=len(found))
    return Segment(0.0, 8.0, (best, replace(best, text="other")), found, **fields)


def test_a_word_belongs_to_who_speaks_most_of_it_or_nearest():
    assert speaker_of(0.5, 1.0, TURNS) == "A"
    assert speaker_of(1.4, 2.4, TURNS) == "B"
    assert speaker_of(4.2, 4.5, TURNS) == "B"
    assert speaker_of(5.6, 5.9, TURNS) == "A"
    assert speaker_of(1.0, 2.0, []) == "A"


def test_a_segment_is_cut_where_the_speaker_changes():
    found = labelled(
        segment(("one", 0.2, 0.6), ("two", 0.7, 1.2), ("three", 2.5, 3.0), ("four", 6.1, 6.5)),
        TURNS,
    )
    assert [(part.speaker, part.text, part.start, part.end) for part in found] == [
        ("A", "one two", 0.0, 1.2),
        ("B", "three", 2.5, 3.0),
        ("A", "four", 6.1, 8.0),
    ]
    assert [word.speaker for part in found for word in part.words] == ["A", "A", "B", "A"]
    assert sum(part.nbest[0].score for part in found) == pytest.approx(-6.0)
    assert [part.nbest[0].num_words for part in found] == [2, 1, 1]
    assert all(len(part.nbest) == 1 for part in found), "the others are of the whole"


def test_a_segment_of_one_speaker_stays_whole():
    whole = segment(("one", 0.2, 0.6), ("two", 0.7, 1.2))
    (found,) = labelled(whole, TURNS)
    assert (found.speaker, found.nbest) == ("A", whole.nbest)
    (found,) = labelled(replace(whole, words=()), TURNS)
    assert found.speaker == "A"
    silent = Segment(0.0, 1.0, ())
    assert labelled(silent, TURNS) == [silent]


def test_names_go_on_after_z():
    assert [name_of(number) for number in (0, 1, 25, 26, 27, 51, 52)] == [
        *("A", "B", "Z"),
        *("AA", "AB", "AZ", "BA"),
    ]


def test_speakers_and_overlaps_follow_from_the_turns():
    found = with_turns(Transcript((Hypothesis("", 0, 0),), (), 8.0, (), {}), TURNS)
    assert found.speakers == (Speaker("A", 3.0), Speaker("B", 2.5))
    assert found.overlaps == (Overlap(1.5, 2.0, ("A", "B")),)
    assert Transcript.from_json(found.to_json()) == found


@pytest.mark.parametrize("decoder", ["attention", "moonshine", "ctc"])
def test_every_word_and_segment_has_its_speaker(decoder):
    (found,), _ = answer(SPOKEN, speakers="auto", decoder=decoder)
    assert [item.speaker for item in found.segments] == ["A", "B", "A"]
    assert all(word.speaker == item.speaker for item in found.segments for word in item.words)
    assert [item.name for item in found.speakers] == ["A", "B"]
    assert [turn.speaker for turn in found.turns] == ["A", "B", "A"]
    assert found.overlaps == ()
    assert Transcript.from_json(found.to_json()) == found


def test_two_speakers_of_one_segment_are_parted():
    (found,), _ = answer(audio("..111111555555...."), speakers="auto")
    assert [item.speaker for item in found.segments] == ["A", "B"]
    assert found.text == "spoken 0.50 0", "the text is that without labels"


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(("pause", "number"), [(6_400, 1), (9_600, 2)])
@pytest.mark.parametrize("segments", [1, 2])
def test_a_short_pause_belongs_to_the_turn_in_one_segment_or_two(
    segments, pause, number, is_streamed
):
    spoken = audio("11")
    talk = np.concatenate([audio("."), spoken, np.zeros(pause, np.float32), spoken, audio(".")])
    cut = {"vad_min_silence_ms": 200, "max_segment_s": 2} if segments == 2 else {}
    parts, _ = answer(talk, streamed=is_streamed, speakers="auto", **cut)
    found = joined_parts(parts)
    assert (len(found.segments), len(found.turns)) == (segments, number)
    assert FORMATS["rttm"](found, "talk").count("\n") == number
    assert parts[-1].relabelled == ()


def test_without_the_option_nothing_is_called_and_the_answer_is_as_ever():
    (found,), components = answer(SPOKEN, word_timestamps=True)
    assert not set(MODELS) & set(components.calls)
    assert "speaker" not in found.to_json() and "turns" not in found.to_json()


@pytest.mark.parametrize(
    ("text", "speakers", "told", "others"),
    [
        ("..1111.....5555.....1111....", ["A", "B", "A"], ["A", "B", "A"], []),
        # A segment stays whole until the end.
        ("..111111555555....", ["A"], ["A", "B"], []),
        # Who says so little is nobody at the end.
        ("..1111...." * 9 + "55....", ["A"] * 9 + ["B"], ["A"] * 9 + ["B"], ["A"]),
    ],
)
def test_parts_of_a_streamed_answer_have_labels_until_the_last_one(text, speakers, told, others):
    parts, components = answer(audio(text), streamed=True, speakers="auto")
    assert [item.speaker for part in parts[:-1] for item in part.segments] == speakers
    assert [turn.speaker for part in parts[:-1] for turn in part.turns] == told
    assert [turn.speaker for turn in parts[-1].relabelled] == others
    (whole,), at_once = answer(audio(text), speakers="auto")
    joined = joined_parts(parts)
    assert (joined.text, joined.segments, joined.turns) == (whole.text, whole.segments, whole.turns)
    assert (joined.speakers, whole.relabelled) == (whole.speakers, ())
    assert sorted(components.calls) == sorted(at_once.calls), "labels of parts take no calls"


def test_parts_have_the_names_of_known_speakers_and_no_more_voices_than_there_are():
    known = option_of([{"name": "Ann", "embedding": np.eye(21)[10]}])
    parts, _ = answer(SPOKEN, streamed=True, speakers="auto", known_speakers=known)
    assert [item.speaker for part in parts[:-1] for item in part.segments] == ["A", "Ann", "A"]
    parts, _ = answer(audio("..111....333....555..."), streamed=True, speakers=2)
    found = [item.speaker for part in parts[:-1] for item in part.segments]
    assert found[:2] == ["A", "B"] and found[2] in ("A", "B")
    both = np.stack([audio("..1111....."), audio("......5555.")])
    parts, _ = answer(file_of(both.T), streamed=True, speakers="auto", channels="split")
    assert [item.speaker for part in parts[:-1] for item in part.segments] == ["A", "B"]


def test_what_was_not_told_of_turns_is_another():
    told = [Turn("A", 0.0, 2.0), Turn("B", 2.0, 5.0), Turn("A", 6.0, 9.0)]
    final = [Turn("A", 0.1, 3.0), Turn("B", 3.0, 5.2), Turn("A", 6.0, 7.0), Turn("B", 7.0, 10.0)]
    assert [*other_turns(told, final)] == [Turn("A", 2.0, 3.0), Turn("B", 7.0, 10.0)]
    assert [*other_turns([], final)] == final


def test_a_number_is_followed():
    (one,), _ = answer(SPOKEN, speakers=1)
    assert {item.speaker for item in one.segments} == {"A"}
    (two,), _ = answer(SPOKEN, speakers="auto", max_speakers=1)
    assert {item.speaker for item in two.segments} == {"A"}


@pytest.mark.parametrize("text", ["......", "..1..", "...."])
def test_silence_and_little_speech_are_answered(text):
    (found,), _ = answer(audio(text), speakers="auto")
    assert [item.speaker for item in found.segments] == ["A"] * len(found.segments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"speakers": "some"}, "takes off, auto or an integer from 1 to 64; sent: 'some'"),
        ({"speakers": 65}, "sent: 65"),
        ({"speakers": "auto", "min_speakers": 3, "max_speakers": 2}, "takes at most max_speakers"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(OptionError, match="speakers.*" + message):
        answer(SPOKEN, **options)


def test_who_speaks_for_some_seconds_is_a_voice_though_pieces_are_left_out():
    def heard(voice: int, stands_for: list[int]) -> SegmentAnalysis:
        spans = [(36_000 * place, 36_000 * place + 24_000) for place in range(len(stands_for))]
        length = 36_000 * len(spans)
        alone = np.array([[True, False, False]] * num_frames(length))
        sounds = np.eye(2, dtype=np.float32)[[voice] * len(spans)]
        return SegmentAnalysis(
            0.0, length, False, [(0, alone)], [(0, length)], spans, stands_for, sounds
        )

    both = [heard(0, [3] * 250), heard(1, [3, 2])]
    assert len(voices_of(both, 1, 64)) == 2
    assert len(voices_of([both[0], heard(1, [1, 1])], 1, 64)) == 1
