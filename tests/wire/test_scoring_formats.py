"""CTM and STM, read by the definition of NIST's SCTK (doc/infmts.htm), and scored against."""

import math
import re
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import jiwer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.wire.formats import recording_name, to_ctm, to_rttm, to_stm
from conch.wire.result import Channel, Hypothesis, Segment, Transcript, Word


class Spoken(NamedTuple):
    """A record of a CTM: `<F> <C> <BT> <DUR> word [ <CONF> ]`."""

    file: str
    channel: str
    start: float
    length: float
    word: str
    confidence: float | None


class Reference(NamedTuple):
    """A record of an STM: `<F> <C> <S> <BT> <ET> [ <LABEL> ] transcript`."""

    file: str
    channel: str
    speaker: str
    start: float
    end: float
    labels: tuple[str, ...]
    words: tuple[str, ...]


def records(text: str) -> list[list[str]]:
    """The lines that are no comments and not empty, as columns."""
    assert not text or text.endswith("\n")
    return [line.split() for line in text.splitlines() if line.strip() and line[:2] != ";;"]


def read_ctm(text: str) -> list[Spoken]:
    spoken = []
    for columns in records(text):
        assert len(columns) in (5, 6), columns
        file, channel, start, length, word = columns[:5]
        assert re.fullmatch(r"\d+\.\d{3}", start) and re.fullmatch(r"\d+\.\d{3}", length)
        assert word not in ("<ALT_BEGIN>", "<ALT>", "<ALT_END>")
        confidence = float(columns[5]) if columns[5:] else None
        spoken.append(Spoken(file, channel, float(start), float(length), word, confidence))
    assert spoken == sorted(spoken, key=lambda item: item[:3])
    return spoken


def read_stm(text: str) -> list[Reference]:
    known = set(re.findall(r'^;; LABEL "([^" ]+)" "[^"]*" "[^"]*"$', text, re.MULTILINE))
    references = []
    for columns in records(text):
        file, channel, speaker, start, end, *words = columns
        labels: tuple[str, ...] = ()
        if words[0].startswith("<"):
            label, *words = words
            assert re.fullmatch(r"<[^<>]+>", label)
            labels = tuple(label[1:-1].split(","))
        assert set(labels) <= known
        assert words and not {"{", "}"} & set("".join(words))
        assert float(start) < float(end)
        times = float(start), float(end)
        references.append(Reference(file, channel, speaker, *times, labels, tuple(words)))
    assert references == sorted(references, key=lambda item: (item.file, item.channel, item.start))
    for one, other in pairwise(references):
        same = (one.file, one.channel) == (other.file, other.channel)
        assert not same or one.end <= other.start
    return references


def errors(reference: list[Reference], spoken: list[Spoken]) -> tuple[int, int]:
    """Words of the reference and errors: as sclite, a word belongs to the segment of its middle."""
    heard = defaultdict(list)
    outside = 0
    for item in spoken:
        middle = item.start + item.length / 2
        places = [
            index
            for index, segment in enumerate(reference)
            if (segment.file, segment.channel) == (item.file, item.channel)
            and segment.start <= middle < segment.end
        ]
        outside += not places
        heard[places[0] if places else -1].append(item.word)
    total, wrong = 0, outside
    for index, segment in enumerate(reference):
        said = jiwer.process_words(" ".join(segment.words), " ".join(heard[index]))
        wrong += said.substitutions + said.insertions + said.deletions
        total += len(segment.words)
    return total, wrong


def segment(text: str, start: float = 0.0, channel: int = 0, language: str = "") -> Segment:
    """A segment whose words take half a second each."""
    words = tuple(
        Word(word, start + index / 2, start + index / 2 + 0.4, 0.95)
        for index, word in enumerate(text.split())
    )
    nbest = (Hypothesis(text, -1.0, -1.0),)
    end = start + len(words) / 2 or start + 1.0
    return Segment(start, end, nbest, words, channel=channel, language=language)


def transcript(*segments: Segment, channels: int = 0) -> Transcript:
    called = tuple(Channel(number + 1, "", 0.0) for number in range(channels))
    nbest = (Hypothesis("", 0.0, 0.0),)
    return Transcript(nbest, segments, 60.0, ("vad",), {}, channels=called)


CALL = transcript(
    segment("Hello, who is it?", channel=1, language="en"),
    segment("It is me.", 1.0, channel=2, language="en"),
    segment("From Leeds.", 4.0, channel=2, language="en"),
    segment("Ah.", 6.0, channel=1, language="en"),
    channels=2,
)


def test_a_line_of_ctm() -> None:
    said = transcript(segment("Good day", 3599.5))
    assert to_ctm(said, "talks/my talk.flac") == (
        "my_talk A 3599.500 0.400 Good 0.9500\nmy_talk A 3600.000 0.400 day 0.9500\n"
    )


def test_a_line_of_stm() -> None:
    said = transcript(replace(segment("Good day", 1.5), language="en"))
    assert to_stm(said, "talk.flac") == (
        ';; LABEL "o" "Overall" "All segments"\n;; LABEL "en" "en" "Segments in the language en"\n'
        "talk A talk-A 1.500 2.500 <o,en> Good day\n"
    )
    assert "<o> Good day" in to_stm(transcript(segment("Good day")), "talk.flac")


def test_channels_are_letters_in_order() -> None:
    spoken, reference = read_ctm(to_ctm(CALL, "call.wav")), read_stm(to_stm(CALL, "call.wav"))
    assert [item.channel for item in spoken] == ["A"] * 5 + ["B"] * 5
    assert [(item.channel, item.speaker) for item in reference] == [
        *[("A", "call-A")] * 2,
        *[("B", "call-B")] * 2,
    ]
    assert errors(reference, spoken) == (10, 0)
    alone = transcript(segment("Hello.", channel=40))
    assert read_ctm(to_ctm(alone, "call.wav"))[0].channel == "40"


def test_an_error_counts() -> None:
    (first, *rest) = CALL.segments
    worse = replace(CALL, segments=(segment("Hello, how is it?", channel=1), *rest))
    assert errors(read_stm(to_stm(CALL, "c")), read_ctm(to_ctm(worse, "c"))) == (10, 1)
    assert first.text == "Hello, who is it?"


def test_scripts_without_spaces_have_a_line_for_each_word() -> None:
    text = "我用Python写，你好。"  # noqa: RUF001
    whole = (Hypothesis(text, -1.0, -1.0),)
    timed = replace(segment("我 用 Python 写， 你 好。"), nbest=whole)  # noqa: RUF001
    for said in (transcript(timed), transcript(replace(timed, words=()))):
        words = [item.word for item in read_ctm(to_ctm(said, "zh"))]
        assert words == ["我", "用", "Python", "写，", "你", "好。"]  # noqa: RUF001
        (reference,) = read_stm(to_stm(said, "zh"))
        assert reference.words == tuple(words)


def test_words_without_times_have_no_confidence_and_share_the_segment() -> None:
    said = transcript(Segment(2.0, 4.0, (Hypothesis("good day", -1.0, -1.0),)))
    first, second = read_ctm(to_ctm(said, "x"))
    assert (first.start, first.length, first.confidence) == (2.0, 1.143, None)
    assert round(second.start + second.length, 3) == 4.0


def test_a_confidence_that_is_not_known_is_left_out() -> None:
    good, day = segment("Good day").words
    said = replace(segment("Good day"), words=(replace(good, confidence=math.nan), day))
    assert to_ctm(transcript(said), "x") == "x A 0.000 0.400 Good\nx A 0.500 0.400 day 0.9500\n"


@pytest.mark.parametrize(
    ("speaker", "column"), [("Anna Smith", "Anna_Smith"), (" {A}\n", "(A)"), (" ", "x-A")]
)
def test_a_speaker_is_one_column(speaker: str, column: str) -> None:
    said = transcript(replace(segment("Good day", language="en us"), speaker=speaker))
    (reference,) = read_stm(to_stm(said, "x"))
    assert (reference.speaker, reference.words) == (column, ("Good", "day"))
    assert reference.labels == ("o", "en_us")
    turns = [line.split() for line in to_rttm(said, "x").splitlines()]
    assert [(len(turn), turn[7]) for turn in turns] == ([(10, column)] if speaker.strip() else [])


def test_what_looks_like_syntax_is_a_word() -> None:
    said = transcript(segment("<b> {uh / um} ;; @"))
    (reference,) = read_stm(to_stm(said, "x"))
    assert reference.words == ("<b>", "(uh", "/", "um)", ";;", "@")
    assert errors([reference], read_ctm(to_ctm(said, "x"))) == (6, 0)


def test_no_speech_is_no_line() -> None:
    assert to_ctm(transcript(), "x") == to_stm(transcript(), "x") == ""
    assert to_stm(transcript(Segment(0.0, 1.0, ())), "x") == ""


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a.wav", "a"),
        ("s3://calls/a b.c.wav", "a_b.c"),
        ("/x/.hidden", ".hidden"),
        (";;x.wav", "__x"),
        ("  ", "audio"),
        ("stdin", "stdin"),
    ],
)
def test_the_name_of_a_recording(name: str, written: str) -> None:
    assert recording_name(name) == written
    assert " " not in recording_name(name)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.text("ab{}@/;<>.好", min_size=1, max_size=5),
            st.floats(0.0, 0.6),
            st.floats(0.0, 0.5),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_any_words_read_back(items: list[tuple[str, float, float]]) -> None:
    clock, words = 0.0, []
    for text, length, pause in items:
        words.append(Word(text, clock, clock + length, 0.5))
        clock += length + pause
    text = " ".join(word.text for word in words)
    said = transcript(Segment(0.0, clock + 0.1, (Hypothesis(text, -1.0, -1.0),), tuple(words)))
    spoken = read_ctm(to_ctm(said, "x"))
    (reference,) = read_stm(to_stm(said, "x"))
    assert tuple(item.word for item in spoken) == reference.words
    assert all(item.length > 0 for item in spoken)
