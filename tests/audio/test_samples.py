import numpy as np

from conch.audio.blocks import BLOCK_SAMPLES
from conch.audio.recording import as_floats, tensor_of, waveform_recording

EVERY = np.arange(-32_768, 32_768, dtype=np.int16)


def test_every_16_bit_sample_keeps_its_value():
    floats = as_floats(EVERY)
    assert floats.dtype == np.float32
    assert (floats[0], floats[32_768]) == (-1.0, 0.0)
    assert [int(value) for value in floats.astype(np.float64) * 32_768] == EVERY.tolist()
    assert as_floats(EVERY[:0]).shape == (0,)


def test_floats_stay_the_same_array():
    waveform = np.zeros(5, np.float32)
    assert as_floats(waveform) is waveform
    assert [tensor_of(samples) for samples in (waveform, EVERY)] == ["WAV", "PCM16"]


def test_a_recording_of_16_bit_samples_becomes_floats_block_by_block():
    samples = np.resize(EVERY, BLOCK_SAMPLES + 7)
    (blocks,) = waveform_recording(samples, 16_000, 60.0).channels.values()
    first = next(blocks)
    assert (first.dtype, len(first)) == (np.float32, BLOCK_SAMPLES)
    np.testing.assert_array_equal(np.concatenate([first, *blocks]), samples / 32_768)
