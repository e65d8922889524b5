import base64
from itertools import pairwise

import numpy as np
import pytest

from conch.audio.segmentation import (
    Segmenter,
    SegmentRules,
    Span,
    loudness,
    state_of,
    text_of_state,
)
from conch.component import SAMPLE_RATE, VAD_FRAME_SAMPLES, VAD_STATE_SIZE
from conch.wire.errors import OptionError
from conch.wire.options import RecognitionOptions

RULES = SegmentRules(
    threshold=0.5, min_speech_ms=96, min_silence_ms=320, pad_ms=64, max_segment_s=10
)
"""In frames of 32 ms: 3 of speech at least, 10 of silence to close, 2 of padding, 312 at most."""


def frames(start: int, end: int) -> Span:
    return Span(start * VAD_FRAME_SAMPLES, end * VAD_FRAME_SAMPLES)


def probabilities(*runs: tuple[float, int]) -> list[float]:
    return [prob for prob, length in runs for _ in range(length)]


def segments(probs: list[float], rules: SegmentRules = RULES) -> list[Span]:
    segmenter = Segmenter(rules)
    return segmenter.push(probs) + segmenter.flush(len(probs) * VAD_FRAME_SAMPLES)


def test_speech_between_silences_is_one_padded_segment():
    assert segments(probabilities((0, 50), (0.9, 20), (0, 200))) == [frames(48, 72)]


def test_silence_has_no_segments():
    assert segments(probabilities((0.1, 500))) == []


def test_a_region_shorter_than_min_speech_is_dropped():
    assert segments(probabilities((0, 50), (0.9, 2), (0, 200))) == []


def test_a_pause_shorter_than_min_silence_does_not_close_the_region():
    assert segments(probabilities((0.9, 20), (0, 9), (0.9, 20), (0, 200))) == [frames(0, 51)]


def test_a_dip_between_the_two_thresholds_is_still_speech():
    assert segments(probabilities((0.9, 20), (0.4, 30), (0.9, 20), (0, 200))) == [frames(0, 72)]


def test_near_regions_share_a_segment_and_far_ones_do_not():
    near = probabilities((0.9, 20), (0, 60), (0.9, 20), (0, 200))
    far = probabilities((0.9, 20), (0, 70), (0.9, 20), (0, 200))
    assert segments(near) == [frames(0, 102)]
    assert segments(far) == [frames(0, 22), frames(88, 112)]


def test_near_regions_that_do_not_fit_one_segment_stay_apart_and_do_not_overlap():
    probs = probabilities((0.9, 200), (0, 12), (0.9, 200), (0, 200))
    rules = SegmentRules(
        threshold=0.5, min_speech_ms=96, min_silence_ms=320, pad_ms=320, max_segment_s=10
    )
    first, second = segments(probs, rules)
    assert first == frames(0, 206)
    assert second == frames(206, 422)


def test_a_long_region_is_split_where_speech_is_least_likely():
    probs = probabilities((0.9, 200), (0.6, 1), (0.9, 299), (0, 200))
    assert segments(probs) == [frames(0, 200), frames(200, 502)]


def test_the_short_rest_of_a_split_region_is_kept():
    probs = probabilities((0.9, 309), (0.6, 1), (0.9, 3), (0, 200))
    rules = SegmentRules(
        threshold=0.5, min_speech_ms=320, min_silence_ms=320, pad_ms=0, max_segment_s=10
    )
    assert segments(probs, rules) == [frames(0, 309), frames(309, 313)]


def test_the_end_of_the_audio_ends_the_last_segment():
    segmenter = Segmenter(RULES)
    assert segmenter.push(probabilities((0.9, 20))) == []
    assert segmenter.flush(20 * VAD_FRAME_SAMPLES - 100) == [Span(0, 20 * VAD_FRAME_SAMPLES - 100)]


@pytest.mark.parametrize("seed", range(20))
def test_pushed_in_pieces_equals_pushed_at_once_and_segments_keep_the_rules(seed):
    random = np.random.default_rng(seed)
    runs = [(random.choice([0.0, 0.4, 0.9]), int(random.integers(1, 120))) for _ in range(60)]
    probs = probabilities(*runs)
    whole = segments(probs)

    segmenter = Segmenter(RULES)
    pieces, position = [], 0
    while position < len(probs):
        step = int(random.integers(1, 50))
        needed = segmenter.needed_from
        result = segmenter.push(probs[position : position + step])
        assert all(span.start >= needed for span in result)
        pieces += result
        position += step
    pieces += segmenter.flush(len(probs) * VAD_FRAME_SAMPLES)

    assert pieces == whole
    for span in whole:
        assert 0 < span.end - span.start <= RULES.max_segment_s * SAMPLE_RATE
    for before, after in pairwise(whole):
        assert before.end <= after.start


@pytest.mark.parametrize("seed", range(5))
def test_every_speech_frame_of_a_kept_region_is_in_a_segment(seed):
    random = np.random.default_rng(seed)
    runs = [(0.9 if i % 2 else 0.0, int(random.integers(3, 400))) for i in range(40)]
    probs = probabilities(*runs)
    covered = np.zeros(len(probs), bool)
    for span in segments(probs):
        covered[span.start // VAD_FRAME_SAMPLES : -(-span.end // VAD_FRAME_SAMPLES)] = True
    assert covered[np.array(probs) >= RULES.threshold].all()


def test_loudness_orders_frames_and_covers_a_last_part():
    wave = np.concatenate([np.full(512, 0.5), np.full(512, 0.001), np.zeros(100)])
    level = loudness(wave.astype(np.float32))
    assert level.shape == (3,)
    assert level[0] > level[1] > level[2] == 0


@pytest.mark.parametrize("threshold", [0.01, 0.1, 0.15])
def test_a_low_threshold_still_hears_the_end_of_speech(threshold):
    rules = SegmentRules(
        threshold=threshold, min_speech_ms=96, min_silence_ms=320, pad_ms=64, max_segment_s=10
    )
    probs = probabilities((0.001, 50), (0.9, 20), (0.001, 2000))
    assert segments(probs, rules) == [frames(48, 72)]


def test_the_vads_memory_goes_through_an_option():
    state = np.linspace(-3, 3, VAD_STATE_SIZE, dtype=np.float32)
    sent = RecognitionOptions.parse({"vad_state": text_of_state(state)})
    assert np.array_equal(state_of(sent), state)
    assert state_of(RecognitionOptions.parse({})) is None


@pytest.mark.parametrize(
    "sent",
    [
        "no base64!",
        "AAA",
        base64.b64encode(bytes(4 * VAD_STATE_SIZE - 4)).decode(),
        base64.b64encode(bytes(4 * VAD_STATE_SIZE + 4)).decode(),
        text_of_state(np.full(VAD_STATE_SIZE, np.inf, np.float32)),
        "ä" * 10_000,
    ],
)
def test_another_memory_is_refused(sent):
    with pytest.raises(OptionError, match="'vad_state' takes base64 of 320 finite FP32") as error:
        state_of(RecognitionOptions.parse({"vad_state": sent}))
    assert len(str(error.value)) < 200
