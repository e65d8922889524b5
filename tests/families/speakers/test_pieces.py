"""What the networks hear of a segment."""

from itertools import pairwise

import numpy as np
import pytest

from conch.families.speakers.pieces import (
    LINE,
    WIDE_BAND,
    between,
    frame_at,
    is_of_line,
    num_frames,
    pieces,
    represented,
    spoken,
    thinned,
    votes,
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


@pytest.mark.parametrize("band", [WIDE_BAND, LINE])
def test_of_one_voice_few_pieces_are_needed_and_all_where_another_speaks(band):
    every = pieces([(0, 30 * S)])
    step = band.most_skipped + 1
    frames = num_frames(30 * S)
    one = np.array([[True, False, False]] * frames)
    places = thinned(every, [(0, one)], band)
    assert sum(represented(places, len(every))) == len(every)
    assert [every[place] for place in places] in (every[::step], [*every[::step], every[-1]])
    two = one.copy()
    two[frame_at(15 * S) : frame_at(16 * S), 1] = True
    places = thinned(every, [(0, two)], band)
    mixed = {place for place, (start, end) in enumerate(every) if start < 16 * S and end > 15 * S}
    assert mixed <= {*places}
    assert sum(represented(places, len(every))) == len(every)
    assert len(every) / step < len(places) < len(every) / step + 6
    apart = pieces([(0, S), (9 * S, 10 * S)])
    assert thinned(apart, [(0, one)], band) == [0, 1]
    assert represented([0, 1], len(apart)) == [1, 1]


def test_between_pieces_that_sound_less_than_alike_there_is_another():
    here, there = np.array([1, 0], np.float32), np.array([0, 1], np.float32)
    sounds = {0: here, 6: here, 12: there, 13: here, 15: there}
    assert between(sounds, 0.5) == [9, 14]
    assert between(sounds, -1.0) == [], "over a line they are not asked for"
    assert between({0: here, 2: there, 1: there}, 0.5) == [], "none is left"


def test_a_window_counts_less_near_its_edges_but_not_at_those_of_the_audio():
    inside = votes(100, 178, 1.0, 500)
    assert inside[0] == inside[-1] == np.float32(0.1)
    np.testing.assert_allclose(inside, inside[::-1])
    np.testing.assert_allclose(inside[29], 30 * 270 / S, rtol=1e-5)
    assert (inside[60:-60] == 1).all()
    assert (votes(0, 178, 1.0, 178) == 1).all()
    assert votes(0, 178, 1.0)[-1] == votes(0, 178, 1.0, 500)[-1] == np.float32(0.1)
    assert (votes(0, 178, 1.0, 500)[:100] == 1).all()


@pytest.mark.parametrize("length", [4000, 20_000, 24_000, 24_001, 50_000, 123_456])
def test_pieces_cover_a_stretch_and_none_is_longer_than_the_network_takes(length):
    found = pieces([(1000, 1000 + length)])
    assert (found[0][0], found[-1][1]) == (1000, 1000 + length)
    assert all(end - start == min(length, 24_000) for start, end in found)
    assert all(later[0] <= earlier[1] for earlier, later in pairwise(found))


@pytest.mark.parametrize("band", [WIDE_BAND, LINE])
@pytest.mark.parametrize("length", [100, 991, 15_000, 48_000, 48_300, 250_000, 480_000])
def test_windows_cover_a_segment_on_one_grid_of_frames(length, band):
    found = windows(length, band.step_s)
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
