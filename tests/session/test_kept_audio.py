import numpy as np

from conch.session.joined_streams import MAX_KEPT_S, KeptAudio

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
