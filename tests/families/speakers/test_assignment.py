"""Who speaks in which frame."""

from dataclasses import replace

import numpy as np

from conch.families.speakers.assignment import SegmentAnalysis, VoiceTurn, is_alone, turns_of
from conch.families.speakers.pieces import num_frames

VOICES = np.eye(3, dtype=np.float32)[:2]
S = 16_000


def segment(seconds: float, active, pieces, who, spoken=None) -> SegmentAnalysis:
    """Return a segment with one window; `active` has spans of seconds by its own speaker."""
    length = round(seconds * S)
    frames = np.zeros((num_frames(length), 3), bool)
    times = (np.arange(len(frames)) * 270 + 495) / S
    for own, start, end in active:
        frames[(times >= start) & (times < end), own] = True
    spans = [(round(start * S), round(end * S)) for start, end in pieces]
    sounds = np.eye(3, dtype=np.float32)[list(who)].reshape(len(who), 3)
    speech = [(0, length)] if spoken is None else spoken
    return SegmentAnalysis(
        100.0, length, False, [(0, frames)], speech, spans, [1] * len(spans), sounds
    )


def rounded(turns: list[VoiceTurn]) -> list[tuple[int, float, float]]:
    return [(turn.voice, round(turn.start, 1), round(turn.end, 1)) for turn in turns]


def test_turns_are_those_of_the_windows_and_voices_those_of_the_pieces():
    pieces = [(0.5, 2), (1.5, 3), (3, 4.5), (4, 5.5)]
    speech = [(S // 2, 11 * S // 2)]
    heard = segment(6, [(2, 0.5, 3), (0, 3, 5.5)], pieces, [1, 1, 0, 0], speech)
    assert rounded(turns_of(heard, VOICES)) == [(1, 100.5, 103.0), (0, 103.0, 105.5)]


def test_where_two_speak_both_have_a_turn():
    heard = segment(6, [(0, 0, 4), (1, 3, 6)], [(0, 1.5), (1, 2.5), (4.2, 5.7)], [0, 0, 1])
    assert rounded(turns_of(heard, VOICES)) == [(0, 100.0, 104.0), (1, 103.0, 106.0)]
    assert is_alone(heard).tolist() == [True, True, True]
    mixed = segment(6, [(0, 0, 4), (1, 3, 6)], [(0, 1.5), (2.5, 4)], [0, 0])
    assert is_alone(mixed).tolist() == [True, False]


def test_what_a_window_hears_at_its_edge_counts_less_but_not_over_a_line():
    first, second = np.zeros((2, 178, 3), bool)
    first[:, 0] = second[:, 0] = True
    # At its end, the first of two windows hears another voice.
    first[-20:, 1] = True
    heard = segment(5, [], [(2.75, 3)], [0])
    heard = replace(heard, windows=[(0, first), (num_frames(5 * S) - 178, second)])
    assert is_alone(heard).tolist() == [True]
    assert [turn.voice for turn in turns_of(heard, VOICES)] == [0]
    heard = replace(heard, is_line=True)
    assert is_alone(heard).tolist() == [False]
    assert {turn.voice for turn in turns_of(heard, VOICES)} == {0, 1}


def test_short_pauses_belong_to_the_turn_and_short_turns_are_dropped():
    pieces, short = [(0, 1), (1.4, 2.5)], (1, 3.7, 3.8)
    for pause, turns in ((0.4, [(0, 100.0, 103.0)]), (0.6, [(0, 100.0, 101.0), (0, 101.6, 103.0)])):
        speech = [(0, S), (round((1 + pause) * S), 3 * S), (round(3.7 * S), round(3.8 * S))]
        heard = segment(4, [(0, 0, 1), (0, 1 + pause, 3), short], pieces, [0, 0], speech)
        assert rounded(turns_of(heard, VOICES)) == turns


def test_short_speech_that_segmentation_misses_is_somebodys():
    for gap, turns in ((0.4, [(0, 100.0, 104.0)]), (0.7, [(0, 100.0, 101.0), (0, 101.7, 104.0)])):
        heard = segment(4, [(0, 0, 1), (0, 1 + gap, 4)], [(0, 1.5), (2, 3.5)], [0, 0])
        assert rounded(turns_of(heard, VOICES)) == turns


def test_two_speak_where_half_of_the_windows_say_so():
    heard = segment(4, [(0, 0, 4), (1, 2, 4)], [(0, 1.5), (2.2, 3.7)], [0, 1])
    ((first, active),) = heard.windows
    alone = active.copy()
    alone[:, 1] = False
    for more, voices in ((1, {0, 1}), (2, {1})):
        several = replace(heard, windows=[(first, active), *[(first, alone)] * more])
        assert {turn.voice for turn in turns_of(several, VOICES) if turn.end > 103.5} == voices


def test_two_speakers_of_a_window_are_two_voices():
    heard = segment(4, [(0, 0, 2), (1, 2, 4)], [(0, 1.5), (2.2, 3.7)], [0, 0])
    near = np.array([[0.9, 0.44, 0], [0.8, 0.6, 0]], np.float32)
    turns = turns_of(replace(heard, embeddings=near), VOICES)
    assert rounded(turns) == [(0, 100.0, 102.0), (1, 102.0, 104.0)]


def test_nobody_speaks_where_the_vad_finds_no_speech():
    heard = segment(4, [(0, 0, 4)], [(0, 1.5)], [0], spoken=[(0, 2 * S)])
    assert rounded(turns_of(heard, VOICES)) == [(0, 100.0, 102.0)]


def test_without_voices_or_pieces_there_are_no_turns():
    heard = segment(2, [(0, 0, 2)], [(0, 1.5)], [0])
    assert turns_of(heard, VOICES[:0]) == []
    assert turns_of(segment(2, [(0, 0, 2)], [], []), VOICES) == []


def test_one_voice_is_never_two_at_once():
    heard = segment(4, [(0, 0, 4), (1, 1, 3)], [(0, 1.5), (1.5, 3)], [0, 0])
    assert rounded(turns_of(heard, VOICES[:1])) == [(0, 100.0, 104.0)]
