"""Streams of one session: the clock, the indices and the speakers of each."""

from dataclasses import replace

import numpy as np
from live_answers import ROLLING, answer, segment, words

from conch.session.joined_streams import MAX_KEPT_S, JoinedStreams, KeptAudio
from conch.wire.options import RecognitionOptions
from conch.wire.result import OpenUtterance, Transcript

OPTIONS = RecognitionOptions(mode="streaming", speakers="auto")


def answer_with(firm: str, *ended: str) -> Transcript:
    """Return the answer of a stream that begins: utterances that have ended, and an open one."""
    segments = [replace(segment(text, index), speaker="A") for index, text in enumerate(ended)]
    return answer(firm, *segments, utterance=OpenUtterance(0.0, words(firm)) if firm else None)


def test_a_stream_after_others_is_on_the_clock_of_the_session() -> None:
    joined = JoinedStreams(16_000)
    joined.clear(160_000, 3)
    joined.begin(OPTIONS)
    joined.take(answer_with("two", "one"), ends=False)
    result = joined.answer()
    assert [(item.index, item.start) for item in result.segments] == [(3, 10.0)]
    assert result.utterance is not None and result.utterance.start == 10.0
    assert (result.text, result.duration) == ("one two", 11.0)


def test_each_stream_of_a_session_has_speakers_of_its_own() -> None:
    joined = JoinedStreams(16_000)
    joined.begin(OPTIONS)
    speakers = []
    for number in range(3):
        joined.take(answer_with("", "one"), ends=False)
        speakers += [item.speaker for item in joined.answer().segments]
        if number:
            joined.begin(OPTIONS)
        else:
            joined.resume()
            joined.resume()  # the first attempt has met no server
    assert speakers == ["A", "A2", "A3"]


def test_the_rolling_passes_of_all_streams_add_up() -> None:
    joined = JoinedStreams(16_000)
    passes = []
    for rolling in (ROLLING, None, ROLLING):
        joined.begin(OPTIONS)
        joined.kept.add(np.zeros(16_000, np.int16))
        joined.take(replace(answer_with("one"), rolling=rolling), ends=False)
        now = joined.answer().rolling
        passes.append(now and now.made)
    assert passes == [1, None, 2]


def test_words_that_were_told_before_are_left_out() -> None:
    joined = JoinedStreams(16_000, sent_before_s=1.2)
    joined.begin(OPTIONS)
    assert joined.hears_again
    joined.take(answer_with("one two"), ends=False)
    assert joined.answer().text == ""
    joined.clear(160_000, 1)
    joined.begin(OPTIONS)
    assert not joined.hears_again


def test_without_another_stream_the_firm_text_is_ended() -> None:
    joined = JoinedStreams(16_000)
    joined.begin(OPTIONS)
    assert joined.settled() is None
    joined.take(answer_with("two"), ends=False)
    joined.answer()
    last = joined.settled()
    assert last is not None and last.utterance is None
    assert [(item.text, item.endpoint) for item in last.segments] == [("two", "lost")]


RATE = 1000


def test_kept_audio_is_bounded() -> None:
    kept = KeptAudio(RATE)
    for number in range(300):
        kept.add(np.full(RATE, number, np.int16))
        kept.drop_before(0)
    assert (kept.start, kept.end) == ((300 - MAX_KEPT_S) * RATE, 300 * RATE)
    assert kept.between(kept.start + 10, 121 * RATE)[0].tolist() == [120] * (RATE - 10)
    kept.take_back(299 * RATE)
    kept.take_back(299 * RATE)
    kept.drop_before(250 * RATE + 1)
    assert [piece[0] for piece in kept.between(0, 299 * RATE)] == list(range(250, 299))


def test_kept_audio_is_a_copy() -> None:
    kept, buffer = KeptAudio(RATE), np.ones(3, np.int16)
    kept.add(buffer)
    buffer[:] = 7
    assert kept.between(0, 3)[0].tolist() == [1, 1, 1]
