"""Streams of one session: the clock, the indices and the speakers of each."""

from dataclasses import replace

from live_answers import answer, segment, words

from conch.session.joined_streams import Beginning, JoinedStreams
from conch.wire.options import RecognitionOptions
from conch.wire.result import OpenUtterance, Transcript

OPTIONS = RecognitionOptions(mode="streaming", speakers="auto")


def heard(firm: str, *ended: str) -> Transcript:
    """Return the answer of a stream that begins: utterances that have ended, and an open one."""
    segments = [replace(segment(text, place), speaker="A") for place, text in enumerate(ended)]
    return answer(firm, *segments, utterance=OpenUtterance(0.0, words(firm)) if firm else None)


def test_a_stream_after_others_is_on_the_clock_of_the_session() -> None:
    joined = JoinedStreams(OPTIONS, 16_000, Beginning(sample=160_000, index=3, stream=2))
    joined.take(heard("two", "one"), ends=False)
    found = joined.answer()
    assert [(item.index, item.start, item.speaker) for item in found.segments] == [(3, 10.0, "A2")]
    assert found.utterance is not None and found.utterance.start == 10.0
    assert (found.text, found.duration) == ("one two", 11.0)


def test_each_stream_of_a_session_has_speakers_of_its_own() -> None:
    first = JoinedStreams(OPTIONS, 16_000)
    speakers = []
    for _ in range(2):
        first.take(heard("", "one"), ends=False)
        speakers += [item.speaker for item in first.answer().segments]
        first.resume(0)
    second = JoinedStreams(OPTIONS, 16_000, Beginning(32_000, 2, first.stream + 1))
    second.take(heard("", "one"), ends=False)
    speakers += [item.speaker for item in second.answer().segments]
    assert len(set(speakers)) == 3 and speakers[0] == "A"


def test_without_another_stream_the_firm_text_is_ended() -> None:
    joined = JoinedStreams(OPTIONS, 16_000)
    assert joined.settled(0) is None
    joined.take(heard("two"), ends=False)
    joined.answer()
    last = joined.settled(0)
    assert last is not None and last.utterance is None
    assert [(item.text, item.endpoint) for item in last.segments] == [("two", "lost")]
