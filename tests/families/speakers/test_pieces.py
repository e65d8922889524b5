"""What the networks hear of a segment."""

from itertools import pairwise

import numpy as np
import pytest

from conch.families.speakers.pieces import (
    LINE,
    WIDE_BAND,
    frame_at,
    is_of_line,
    num_frames,
    pieces,
    spoken,
    thinned,
    windows,
)

S = 16_000


def test_words_begin_and_end_softly():
    probs = np.array([0.02] * 5 + [0.06] * 3 + [0.6] + [0.06] * 20 + [0.04] * 20, np.float32)
    assert spoken(probs, 49 * 512, WIDE_BAND) == [(5 * 512, 29 * 512)]
    probs = np.array([0.3] * 5 + [0.6] + [0.4] * 20 + [0.3] * 20, np.float32)
    assert spoken(probs, 46 * 512, WIDE_BAND, is_firm=True) == [(5 * 512, 26 * 512)]
    assert spoken(np.full(49, 0.4, np.float32), 49 * 512, WIDE_BAND) == [], "nowhere sure"


def test_over_a_line_less_is_speech_and_longer_pauses_are():
    probs = np.array([0.32] * 10 + [0.1] * 9 + [0.32] * 10 + [0.1] * 20, np.float32)
    assert spoken(probs, 49 * 512, LINE) == [(0, 29 * 512)]
    assert spoken(probs, 49 * 512, WIDE_BAND) == []


def test_short_pauses_are_speech_and_short_speech_is_none():
    yes, no = [0.9], [0.02]
    probs = np.array(yes * 10 + no * 2 + yes * 10 + no * 20 + yes * 4 + no * 9 + yes * 20)
    assert spoken(probs, 75 * 512 - 7, WIDE_BAND) == [(0, 22 * 512), (55 * 512, 75 * 512 - 7)]


def test_of_one_voice_a_third_of_the_pieces_is_needed_and_all_where_another_speaks():
    every = pieces([(0, 30 * S)])
    frames = num_frames(30 * S)
    one = np.array([[True, False, False]] * frames)
    kept, stands_for = thinned(every, [(0, one)])
    assert kept in (every[::3], [*every[::3], every[-1]])
    assert sum(stands_for) == len(every)
    two = one.copy()
    two[frame_at(15 * S) : frame_at(16 * S), 1] = True
    kept, stands_for = thinned(every, [(0, two)])
    assert {span for span in every if span[0] < 16 * S and span[1] > 15 * S} <= {*kept}
    assert len(every) / 3 < len(kept) < len(every) / 2
    assert sum(stands_for) == len(every)
    apart = [(0, S), (9 * S, 10 * S)]
    assert thinned(pieces(apart), [(0, one)]) == (apart, [1, 1])


@pytest.mark.parametrize("length", [4000, 20_000, 24_000, 24_001, 50_000, 123_456])
def test_pieces_cover_a_stretch_and_none_is_longer_than_the_network_takes(length):
    found = pieces([(1000, 1000 + length)])
    assert (found[0][0], found[-1][1]) == (1000, 1000 + length)
    assert all(end - start == min(length, 24_000) for start, end in found)
    assert all(later[0] <= earlier[1] for earlier, later in pairwise(found))


@pytest.mark.parametrize("length", [100, 991, 15_000, 48_000, 48_300, 250_000, 480_000])
def test_windows_cover_a_segment_on_one_grid_of_frames(length):
    found = windows(length)
    covered = np.zeros(num_frames(length))
    for start, end in found:
        assert start % 270 == 0 and end - start <= 48_000 and end <= length
        covered[start // 270 : start // 270 + num_frames(end - start)] += 1
    assert covered.min() >= 1
    assert len(found) == 1 or np.median(covered) >= 2


def test_a_frame_is_at_the_middle_of_what_it_hears():
    assert [frame_at(495), frame_at(495 + 270), frame_at(495 + 270 * 7 + 100)] == [0, 1, 7]
    assert [num_frames(length) for length in (10, 991, 1260, 1261, 160_000)] == [1, 1, 1, 2, 589]


def test_a_telephone_line_leaves_the_upper_band_empty():
    noise = np.random.default_rng(1).standard_normal(4 * S).astype(np.float32) * 0.1
    spectrum = np.fft.rfft(noise)
    spectrum[3400 * 4 :] = 0
    line = np.fft.irfft(spectrum, len(noise)).astype(np.float32)
    assert is_of_line(line)
    assert is_of_line(0.001 * line)
    assert not is_of_line(noise)
    assert not is_of_line(line + 0.02 * noise)
