import numpy as np

from conch.session.kept_audio import MAX_KEPT_S, KeptAudio

RATE = 1000


def test_kept_audio_is_bounded() -> None:
    kept = KeptAudio(RATE)
    for number in range(300):
        kept.add(number, np.full(RATE, number, np.int16))
        kept.drop_before(0, number)
    assert kept.start == (300 - MAX_KEPT_S) * RATE
    assert kept.before(121, kept.start + 10)[0].tolist() == [120] * (RATE - 10)
    kept.remove(299)
    kept.drop_before(10**9, 250)
    assert [piece[0] for piece in kept.before(1000, 0)] == list(range(250, 299))


def test_kept_audio_is_a_copy() -> None:
    kept, buffer = KeptAudio(RATE), np.ones(3, np.int16)
    kept.add(0, buffer)
    buffer[:] = 7
    assert kept.before(1, 0)[0].tolist() == [1, 1, 1]
