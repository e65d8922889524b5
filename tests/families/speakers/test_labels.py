"""Labels of words and segments: pure functions, and requests on plain components."""

import base64
import json
import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from plain_labels import MODELS, SPOKEN, answer, file_of
from plain_streams import audio

from conch.audio.recording import Recording, file_recording
from conch.families.speakers import enrolment
from conch.families.speakers.assignment import SegmentAnalysis
from conch.families.speakers.enrolment import AT_ONCE, MOST_S
from conch.families.speakers.labels import SpeakerLabels, labelled, matched, name_of, voices_of
from conch.families.speakers.pieces import num_frames
from conch.wire.errors import AudioError, OptionError
from conch.wire.formats import FORMATS
from conch.wire.known_speakers import KnownSpeaker, embedding_of, option_of
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


SIZE = 21


def voice(level: int) -> np.ndarray:
    """Return how `PlainComponents` hears a level of 0.05 times the number."""
    return np.eye(SIZE, dtype=np.float32)[level]


FIRST, SECOND = voice(2), voice(10)
"""Of the levels 1 and 5 in `audio`."""


def named(*entries: dict[str, Any], **options: Any):
    asked = {"speakers": "auto", "known_speakers": option_of(entries), **options}
    (found,), components = answer(SPOKEN, **asked)
    return found, components


def test_the_best_pairs_are_matched_first_and_no_name_is_given_twice():
    known = np.eye(3, dtype=np.float32)
    voices = np.array([[0.8, 0.6, 0], [0.9, 0, 0.4], [0, 0.4, 0.4]], np.float32)
    assert matched(voices, known, [0.5] * 3) == {1: 0, 0: 1}
    assert matched(voices, known, [0.7, 0.95, 0.5]) == {0: 0}


def test_a_stranger_has_the_next_letter_that_is_nobodys_name():
    known = [KnownSpeaker("A", FIRST), KnownSpeaker("C", voice(0))]
    voices = np.array([SECOND, FIRST, voice(3), 0.49 * voice(0)])
    labels = SpeakerLabels(known)
    labels.learn(voices, [0.5] * 4)
    assert [*map(labels.of, range(4))] == ["B", "A", "D", "E"]
    assert [*map(SpeakerLabels().of, range(2))] == ["A", "B"]


def test_a_voice_of_a_stream_has_a_letter_until_it_is_known_and_then_its_name():
    labels = SpeakerLabels([KnownSpeaker("Ann", FIRST)])
    labels.learn(np.array([0.4 * FIRST, SECOND]), [0.5] * 2)
    assert [labels.of(1), labels.of(0)] == ["A", "B"]
    labels.learn(np.array([0.6 * FIRST, SECOND]), [0.5] * 2)
    assert [labels.of(0), labels.of(1)] == ["Ann", "A"]
    # Another sounds more like her. Only at the end it has her name.
    voices = np.array([0.6 * FIRST, SECOND, FIRST])
    labels.learn(voices, [0.5] * 3)
    assert [*map(labels.of, range(3))] == ["Ann", "A", "C"]
    labels.learn(voices, [0.5] * 3, anew=True)
    assert [*map(labels.of, range(3))] == ["B", "A", "Ann"]
    # One that was taken for two is no more.
    voices[2] = 0
    labels.learn(voices, [0.5] * 3)
    assert [*map(labels.of, range(3))] == ["Ann", "A", "Ann"]


def test_a_known_voice_has_its_name_everywhere():
    found, _ = named({"name": "Ann", "embedding": SECOND}, {"name": "Ben", "embedding": voice(7)})
    assert [item.speaker for item in found.segments] == ["A", "Ann", "A"]
    assert [turn.speaker for turn in found.turns] == ["A", "Ann", "A"]
    assert [item.name for item in found.speakers] == ["A", "Ann"]


def test_audio_is_heard_before_the_recording():
    sent = file_of(audio("..5555.."))
    found, components = named({"name": "Ann", "audio": sent}, {"name": "Eve", "embedding": FIRST})
    assert [item.speaker for item in found.segments] == ["Eve", "Ann", "Eve"]
    assert components.calls[0] == "speaker_embedding"
    data_url = "data:audio/wav;base64," + base64.b64encode(sent).decode()
    again, _ = named({"name": "Ann", "audio": data_url})
    assert [item.speaker for item in again.segments] == ["A", "Ann", "A"]


def test_audio_is_heard_once_for_all_rows():
    def calls_for(num_rows: int) -> int:
        rows = [SPOKEN] * num_rows
        found, components = answer(np.stack(rows), speakers="auto", known_speakers=known)
        assert {item.speaker for one in found for item in one.segments} == {"A", "Ann"}
        return components.calls.count("speaker_embedding")

    known = option_of([{"name": "Ann", "embedding": SECOND}])
    of_a_row = calls_for(2) - calls_for(1)
    of_embeddings = calls_for(1)
    known = option_of([{"name": "Ann", "audio": file_of(audio("..5555.."))}])
    assert calls_for(1) > of_embeddings
    assert calls_for(3) - calls_for(2) == calls_for(2) - calls_for(1) == of_a_row


def test_audio_counts_in_the_limit_of_the_server():
    sent = [{"name": "Ann", "audio": file_of(audio("..5555.."))}, {"name": "B", "embedding": FIRST}]
    options = {"speakers": "auto", "known_speakers": option_of(sent)}
    with pytest.raises(AudioError, match=r"the request has 4\d\.\d s of audio"):
        answer(SPOKEN, limits={"max_audio_in_flight_s": MOST_S}, **options)
    options["known_speakers"] = option_of(sent[1:])
    (found,), _ = answer(SPOKEN, limits={"max_audio_in_flight_s": MOST_S}, **options)
    assert found.segments


def test_few_voices_are_decoded_at_once(monkeypatch):
    def decoded(data: bytes, most_s: float) -> Recording:
        running.append(data)
        most.append(len(running))
        try:
            time.sleep(0.01)  # a while in which others would begin
            return file_recording(data, most_s)
        finally:
            running.remove(data)

    running, most = list[bytes](), list[int]()
    monkeypatch.setattr(enrolment, "file_recording", decoded)
    levels = "555666777"
    entries = [
        {"name": f"P{place}", "audio": file_of(audio(f"..{level * 4}{'.' * place}"))}
        for place, level in enumerate(levels)
    ]
    with pytest.raises(OptionError, match="it is the same voice"):
        named(*entries)
    assert len(most) == len(levels)
    assert max(most) <= AT_ONCE


def test_forty_voices_are_known():
    others = [voice(level) for level in range(SIZE) if level not in (2, 10)]
    mixed = [(a + b) / np.sqrt(2) for a, b in pairwise(others)]
    crowd = [*others, *mixed, FIRST, SECOND][-40:]
    entries = [{"name": f"P{n}", "embedding": sound} for n, sound in enumerate(crowd)]
    assert len(entries) >= 39
    found, _ = named(*entries)
    assert [item.speaker for item in found.segments] == [
        *(entries[-2]["name"], entries[-1]["name"], entries[-2]["name"])
    ]


@pytest.mark.parametrize(("number", "speakers"), [("auto", "ABA"), (2, "ABC")])
def test_a_channel_is_a_speaker_and_with_a_number_each_has_its_own(number, speakers):
    sides = audio("..1111.........55555..."), audio("........3333...........")
    (found,), components = answer(file_of(np.stack(sides, 1)), channels="split", speakers=number)
    whose = [(item.channel, item.speaker) for item in found.segments]
    assert whose == [*zip((1, 2, 1), speakers, strict=True)]
    if number == "auto":
        assert [turn.speaker for turn in found.turns] == ["A", "B", "A"]
        assert not {*MODELS} & {*components.calls}
    else:
        assert "speaker_embedding" in components.calls


def test_channels_have_names_if_their_voices_are_heard():
    waveform = np.stack([audio("..1111....."), audio("......5555.")])
    sent = file_of(waveform.T)
    options = {"speakers": "auto", "channels": "split"}
    (found,), components = answer(sent, **options)
    assert [turn.speaker for turn in found.turns] == ["A", "B"]
    assert not set(MODELS) & set(components.calls)
    known = option_of([{"name": "Ann", "embedding": SECOND}])
    (found,), _ = answer(sent, **options, known_speakers=known)
    assert [turn.speaker for turn in found.turns] == ["A", "Ann"]


def test_one_voice_is_asked_for_and_known():
    (found,), _ = answer(
        audio("..1111..1111.."),
        speakers=1,
        known_speakers=option_of([{"name": "Ann", "embedding": FIRST}]),
    )
    assert {item.speaker for item in found.segments} == {"Ann"}


def test_an_answer_has_how_speakers_sound():
    for streamed in (False, True):
        parts, _ = answer(SPOKEN, streamed=streamed, speakers="auto", speaker_embeddings=True)
        sounds = [embedding_of(item.embedding) for item in parts[-1].speakers]
        np.testing.assert_allclose(sounds, [FIRST, SECOND], atol=1e-6)
    plain, _ = answer(SPOKEN, speakers="auto")
    assert '"embedding":' not in plain[0].to_json()


def test_who_speaks_alone_calls_no_recogniser():
    (found,), components = answer(SPOKEN, speakers="auto", decoder="none")
    assert set(components.calls) == {"vad", *MODELS}
    assert [turn.speaker for turn in found.turns] == ["A", "B", "A"]
    assert (found.text, found.segments) == ("", ())
    assert "no speech was found" not in found.warnings
    (silent,), _ = answer(audio("....."), speakers="auto", decoder="none")
    assert (silent.turns, silent.warnings[-1]) == ((), "no speech was found")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ("[", "takes a JSON list"),
        ("{}", "takes a JSON list of at most 64; sent: '{}'"),
        ([{"name": str(n), "embedding": [1]} for n in range(65)], "at most 64; sent: 65"),
        ([[]], "entry 1 .*it is no object"),
        ([{"embedding": [1]}], "entry 1 .*a name is"),
        ([{"name": " Ann", "embedding": [1]}], "entry 1 .*a name is"),
        ([{"name": "A" * 61, "embedding": [1]}], "at most 60"),
        ([{"name": "Ann"}], r"entry 1 \('Ann'\): it takes one of embedding and audio"),
        ([{"name": "Ann", "embedding": [1], "audio": "AA=="}], "one of embedding and audio"),
        ([{"name": "Ann", "embeding": [1]}], "unknown key 'embeding'"),
        ([{"name": "Ann", "embedding": [1], "model": "x"}], "of model 'x'.*enrol it again"),
        ([{"name": "Ann", "embedding": ["1"]}], "base64 of float32, or a list of numbers"),
        ([{"name": "Ann", "embedding": [float("nan")]}], "finite"),
        ([{"name": "Ann", "embedding": [0, 0]}], "not all are 0"),
        ([{"name": "Ann", "embedding": "AAA="}], "sent: 2 bytes"),
        ([{"name": "Ann", "embedding": "?"}], "base64 is damaged"),
        ([{"name": "Ann", "audio": "data:audio/wav,x"}], ";base64 stands before the comma"),
        ([{"name": "Ann", "audio": ""}], "it has 0 bytes"),
        ([{"name": "Ann", "audio": 1}], "takes base64"),
        ([{"name": "Ann", "embedding": [1]}] * 2, "entry 2 .*entry 1 has this name too"),
    ],
)
def test_an_entry_that_cannot_be_read_is_named(entries, message):
    text = entries if isinstance(entries, str) else json.dumps(entries)
    with pytest.raises(OptionError, match="option 'known_speakers'.*" + message):
        answer(SPOKEN, speakers="auto", known_speakers=text)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"name": "Ann", "embedding": [1.0] * 20}], "20 numbers; speaker_embedding gives 21"),
        (
            [{"name": "Ann", "embedding": FIRST}, {"name": "Ben", "embedding": FIRST}],
            r"\('Ben'\): it is the same voice as 'Ann'",
        ),
        ([{"name": "Ann", "audio": b"no audio"}], "its audio: "),
        ([{"name": "Ann", "audio": file_of(audio("....."))}], "0.0 s of speech"),
        ([{"name": "Ann", "audio": file_of(audio("..1.."))}], "s of speech; it takes at least 1.2"),
        ([{"name": "Ann", "audio": file_of(audio("1" * 50))}], "32.0 s long; .* at most 30 s"),
        ([{"name": "Ann", "audio": file_of(audio("1111.5555"))}], "several voices, of 2.* and 2"),
    ],
)
def test_an_entry_that_cannot_be_followed_is_named(entries, message):
    with pytest.raises(OptionError, match="option 'known_speakers', entry.*" + message):
        named(*entries)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"known_speakers": "[]"}, "'known_speakers' goes with speakers"),
        ({"speaker_embeddings": True}, "'speaker_embeddings' goes with speakers"),
        ({"decoder": "none"}, "'decoder' takes none"),
    ],
)
def test_what_needs_speakers_says_so(options, message):
    with pytest.raises(OptionError, match=message):
        answer(SPOKEN, **options)
