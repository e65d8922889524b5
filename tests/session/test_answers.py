"""Live text on the clock of a session of several streams."""

from dataclasses import replace

from live_answers import ROLLING, answer, segment

from conch.session.answers import (
    has_last_text,
    labels_of,
    shifted,
    shifted_segment,
    shifted_utterance,
)
from conch.wire.result import Hypothesis, OpenUtterance, Segment, Turn, Unrecognised, Word


def test_times_are_put_on_the_clock_of_the_session() -> None:
    item = segment("one", 2)
    shifted = shifted_segment(item, 10.0, 5)
    assert (shifted.index, shifted.start, shifted.end, shifted.text) == (7, 10.0, 11.0, "one")
    utterance = OpenUtterance(1.0, (Word("a", 1.0, 1.5, 0.9),), heard_until=0.0)
    moved = shifted_utterance(utterance, 2.0)
    assert (moved.start, moved.firm[0].start, moved.firm[0].end) == (3.0, 3.0, 3.5)
    assert moved.heard_until == 0.0
    assert not has_last_text(item, answer("", rolling=ROLLING))
    assert has_last_text(segment("one", 2, 2), answer("", rolling=ROLLING))
    assert has_last_text(segment("one", 2, error="no second pass"), answer("", rolling=ROLLING))
    assert has_last_text(item, answer("", rolling=None))
    assert has_last_text(item, answer("", rolling=ROLLING, is_final=True))


def test_unrecognised_speech_moves_as_well() -> None:
    left = replace(segment("one", 0), unrecognised=(Unrecognised(0.2, 0.4, "o"),))
    assert shifted_segment(left, 3.0, 0).unrecognised == (Unrecognised(3.2, 3.4, "o"),)


def test_speakers_of_a_later_stream_have_names_of_their_own() -> None:
    word = Word("one", 0.0, 1.0, 0.5, speaker="A")
    item = Segment(0.0, 1.0, (Hypothesis("one", 0, 0),), (word,), speaker="A")
    assert shifted_segment(item, 3.0, 0).speaker == "A"
    later = shifted_segment(item, 3.0, 0, labels_of(2))
    assert (later.speaker, later.words[0].speaker) == ("A2", "A2")
    assert shifted([Turn("B", 0.0, 1.0)], 3.0, labels_of(2)) == (Turn("B2", 3.0, 4.0),)
    known = labels_of(2, '[{"name": "A", "embedding": [1]}]')
    assert shifted_segment(item, 3.0, 0, known).speaker == "A"
    plain = shifted_segment(Segment(0.0, 1.0, ()), 3.0, 0, labels_of(2))
    assert plain.speaker == ""
