"""Both halves of Kokoro, with a small network of the same values."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from toy_kokoro import FRAMES_OF_TOKEN, write_kokoro

from conch.component import Row
from conch.families.kokoro import FRAME_SAMPLES, MAX_TOKENS, NAMES, NETWORK
from conch.families.kokoro.components import (
    CHANNELS,
    LATENTS,
    SIZES,
    STEP,
    STYLE_ROWS,
    STYLE_SIZE,
    TIMBRE_ROW,
    KokoroAcoustic,
    KokoroConfig,
    KokoroVocoder,
    packed,
    unpacked,
)
from conch.wire.errors import ConfigError, InvalidRequestError, OptionError

TOKENS = np.array([0, 50, 83, 16, 156, 43, 4, 0], np.int32)
FRAMES = FRAMES_OF_TOKEN * len(TOKENS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_kokoro(tmp_path_factory.mktemp("kokoro"))


@pytest.fixture(scope="module")
def config(folder: Path) -> KokoroConfig:
    return KokoroConfig(model=str(folder), nice=0)


@pytest.fixture(scope="module")
def acoustic(config: KokoroConfig) -> KokoroAcoustic:
    return KokoroAcoustic(config)


def voiced(acoustic: KokoroAcoustic, voice: str, tokens: np.ndarray = TOKENS, speed: float = 1.0):
    inputs = {"tokens": tokens, "speed": np.array([speed], np.float32)}
    return acoustic([Row(inputs, {"voice": voice})])[0]


def test_both_halves_are_the_network(folder, config, acoustic) -> None:
    found = voiced(acoustic, "af_bella", speed=2.0)
    assert found["latents"].shape == (FRAMES, CHANNELS)
    assert found["durations"].tolist() == [FRAMES_OF_TOKEN] * len(TOKENS)
    style = np.zeros((1, STYLE_SIZE), np.float32)
    style[0, :2] = NAMES.index("af_bella"), TIMBRE_ROW
    style[0, -1] = len(TOKENS) - 2
    inputs = {
        "tokens": TOKENS[None].astype(np.int64),
        "style": style,
        "speed": np.full(1, 2, np.float32),
    }
    (whole,) = onnxruntime.InferenceSession(folder / NETWORK).run(["audio"], inputs)
    row = Row(
        {"latents": found["latents"], "context": np.zeros(3, np.int32)}, {"voice": "af_bella"}
    )
    made = KokoroVocoder(config)([row])[0]["waveform"]
    assert len(made) == FRAMES * FRAME_SAMPLES
    # The means are those of other speech, which is the same for all samples of a frame's place.
    apart = (made - whole).reshape(FRAMES, FRAME_SAMPLES)
    np.testing.assert_allclose(apart, apart[:1].repeat(FRAMES, axis=0), atol=1e-4)
    assert np.abs(apart).max() > 0.01


def test_chunks_are_the_whole(config, acoustic) -> None:
    latents = voiced(acoustic, "af_bella")["latents"]
    vocoder = KokoroVocoder(config)

    def sound(first: int, last: int, before: int = 0, after: int = 0) -> np.ndarray:
        context = np.array([before, after, 0], np.int32)
        return vocoder(
            [Row({"latents": latents[first:last], "context": context}, {"voice": "af_bella"})]
        )[0]["waveform"]

    whole, cuts = sound(0, FRAMES), (0, 3, 10, FRAMES)
    pieces = [
        sound(max(0, start - 2), min(FRAMES, end + 2), min(2, start), min(2, FRAMES - end))
        for start, end in pairwise(cuts)
    ]
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-5)


def test_a_mix_is_between_its_voices(acoustic) -> None:
    def style_of(voice: str) -> float:
        return voiced(acoustic, voice)["latents"][0, -SIZES[LATENTS[-1]]]

    assert style_of("af_bella") == NAMES.index("af_bella")
    mixed = style_of("am_adam:3,bm_lewis:1")
    assert mixed == (3 * NAMES.index("am_adam") + NAMES.index("bm_lewis")) / 4


def test_a_style_is_that_of_the_length_and_the_longest_at_most(acoustic) -> None:
    for count, row in ((MAX_TOKENS, STYLE_ROWS - 1), (12, 10), (1, 0)):
        style = acoustic.style("af_sky", count)[0]
        assert (style[0], style[1], style[-1]) == (NAMES.index("af_sky"), TIMBRE_ROW, row)


def test_a_stretch_of_latents_is_that_of_the_values() -> None:
    rng = np.random.default_rng(1)
    shapes = {1: (512, 9), 2: (18,), 3: (18,), 4: (22, 9 * STEP + 1), 5: (128,)}
    values = [rng.standard_normal((1, *shape)).astype(np.float32) for shape in shapes.values()]
    found = [*unpacked(packed(values)[2:6]).values()]
    cuts = ((2, 6), (4, 12), (4, 12), (2 * STEP, 6 * STEP + 1), (0, 128))
    for value, part, (start, end) in zip(values, found, cuts, strict=True):
        np.testing.assert_array_equal(part, value[..., start:end])


def test_what_it_cannot_speak_is_refused(acoustic, config) -> None:
    with pytest.raises(InvalidRequestError, match="takes 1 to 512 sounds; sent: 513"):
        voiced(acoustic, "af_sky", np.zeros(MAX_TOKENS + 1, np.int32))
    with pytest.raises(OptionError, match="sent: 'nobody'"):
        voiced(acoustic, "nobody")
    row = Row(
        {"latents": np.zeros((4, 7), np.float32), "context": np.zeros(3, np.int32)},
        {"voice": "af_bella"},
    )
    with pytest.raises(InvalidRequestError, match=rf"frames of {CHANNELS} values"):
        KokoroVocoder(config)([row])


def test_without_its_files_it_is_not_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Kokoro voices .*kokoro\.onnx does not exist"):
        KokoroVocoder(KokoroConfig(model=str(tmp_path), nice=0))
