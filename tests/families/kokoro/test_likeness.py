"""The mix of voices that is nearest to a recording."""

import numpy as np
import pytest

from conch.component import Row, unit
from conch.families.kokoro import NAMES
from conch.families.kokoro.likeness import EMBEDDINGS, PITCHES, embedding_of, nearest
from conch.wire.errors import AudioError
from conch.wire.synthesis import shares_of


@pytest.fixture(scope="module")
def embeddings() -> np.ndarray:
    found = np.load(EMBEDDINGS)
    assert found.shape[0] == len(NAMES)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    return found


def test_a_voice_is_nearest_to_itself(embeddings: np.ndarray) -> None:
    for place, name in enumerate(NAMES):
        assert nearest(embeddings[place], embeddings) == f"{name}:1.00"
        assert nearest(embeddings[place], embeddings, float(PITCHES[place])) == f"{name}:1.00"


def test_a_mix_is_found_again(embeddings: np.ndarray) -> None:
    first, second = NAMES.index("af_bella"), NAMES.index("bm_lewis")
    sound = unit(0.7 * embeddings[first] + 0.3 * embeddings[second])
    shares = shares_of(nearest(sound, embeddings))
    assert shares == pytest.approx({"af_bella": 0.7, "bm_lewis": 0.3}, abs=0.01)


@pytest.mark.parametrize("hertz", [70, 100, 150, 200, 300])
def test_a_mix_has_voices_near_the_pitch_of_the_recording(
    embeddings: np.ndarray, hertz: int
) -> None:
    nearest_in_pitch = np.argsort(np.abs(np.log(PITCHES / hertz)))[:4]
    for sound in embeddings:
        for name in shares_of(nearest(sound, embeddings, hertz)):
            place = NAMES.index(name)
            factor = PITCHES[place] / hertz
            assert 0.769 < factor < 1.301 or place in nearest_in_pitch


def test_any_sound_has_a_voice(embeddings: np.ndarray) -> None:
    rng = np.random.default_rng(2)
    for sound in unit(rng.standard_normal((50, embeddings.shape[1])).astype(np.float32)):
        shares = shares_of(nearest(sound, embeddings))
        assert 1 <= len(shares) <= 3 and min(shares.values()) > 0.04
        mixed = unit(sum(share * embeddings[NAMES.index(name)] for name, share in shares.items()))
        # No voice alone is nearer by more than what the rounding of the shares costs.
        assert mixed @ sound > (embeddings @ sound).max() - 0.02
    away = -unit(embeddings.sum(axis=0))
    assert shares_of(nearest(away, embeddings)) == {NAMES[int(np.argmax(embeddings @ away))]: 1.0}


def test_a_recording_is_heard_in_pieces() -> None:
    heard: list[tuple[int, int]] = []

    def embedding(rows):
        (row,) = rows
        spans = zip(row.inputs["starts"].tolist(), row.inputs["ends"].tolist(), strict=True)
        heard.extend(spans)
        return [{"embeddings": np.ones((len(heard), 4), np.float32)}]

    found = embedding_of(embedding, Row({"waveform": np.zeros(80_000, np.float32)}))
    np.testing.assert_allclose(found, 0.5)
    assert heard == [(0, 32_000), (16_000, 48_000), (32_000, 64_000), (48_000, 80_000)]
    with pytest.raises(AudioError, match=r"a voice takes 3 to 20 s of audio; sent: 2\.9 s"):
        embedding_of(embedding, Row({"waveform": np.zeros(46_400, np.float32)}))
    with pytest.raises(AudioError, match="at most 20 s"):
        embedding_of(embedding, Row({"waveform": np.zeros(320_001, np.float32)}))
