"""Both halves of Piper's voices, with a small network of the same shape."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from toy_piper import CHANNELS, CONTEXT, HOP, SETTINGS, write_piper

from conch.component import Row
from conch.families.hibari.front_end import symbols
from conch.families.piper.components import SILENCE, PiperAcoustic, PiperVocoder, units_of
from conch.families.piper.folder import check_piper, read_cut, read_voices
from conch.families.speech.graphs import VoiceConfig
from conch.wire.errors import ConfigError, InvalidRequestError, OptionError

SOUNDS = "həlˈO wˈɜɹld."  # noqa: RUF001


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("piper")
    write_piper(folder)
    write_piper(folder, "two", speakers=("ann", "ben"))
    return folder


@pytest.fixture(scope="module")
def config(folder: Path) -> VoiceConfig:
    return VoiceConfig(model=str(folder), nice=0)


@pytest.fixture(scope="module")
def acoustic(config: VoiceConfig) -> PiperAcoustic:
    return PiperAcoustic(config)


@pytest.fixture(scope="module")
def vocoder(config: VoiceConfig) -> PiperVocoder:
    return PiperVocoder(config)


def voiced(acoustic: PiperAcoustic, voice: str = "toy", seed: int = 0, speed: float = 1.0):
    by_sound = {sound: token for token, sound in symbols().items()}
    tokens = np.array([0, *(by_sound[sound] for sound in SOUNDS), 0], np.int32)
    row = Row({"tokens": tokens, "speed": np.array([speed], np.float32)}, {"voice": voice})
    row.parameters["seed"] = seed
    return acoustic([row])[0]


def sound(vocoder: PiperVocoder, latents: np.ndarray, voice: str = "toy", before=0, after=0):
    context = np.array([before, after, 0], np.int32)
    return vocoder([Row({"latents": latents, "context": context}, {"voice": voice})])[0]["waveform"]


def test_a_voice_is_cut_by_its_shape(folder) -> None:
    toy, two = read_voices(folder)
    assert (toy.name, toy.language, toy.sample_rate) == ("toy", "en-US", 16_000)
    cut = read_cut(toy.path)
    assert (cut.latents, cut.durations, cut.others) == ("z.3", "w", ())
    assert (cut.frame_samples, cut.context) == (HOP, CONTEXT)
    assert read_cut(two.path).others == ("sid",) and two.added().has_speakers


def test_both_halves_are_the_network(folder, tmp_path) -> None:
    """What is drawn of it is left out, and speed is a length."""
    silent = {"noise_scale": 0, "length_scale": 2, "noise_w": 0}
    path = write_piper(tmp_path, "plain", inference=silent)
    config = VoiceConfig(model=str(tmp_path), nice=0)
    (voice,) = read_voices(tmp_path)
    found = voiced(PiperAcoustic(config), "plain", speed=0.8)
    units, owners = units_of(f"{SILENCE}{SOUNDS}{SILENCE}", voice.units)
    inputs = {"input": units[None], "input_lengths": np.array([len(units)])}
    inputs["scales"] = np.array([0, 2.5, 0], np.float32)
    (whole,) = onnxruntime.InferenceSession(path).run(["output"], inputs)
    np.testing.assert_allclose(
        sound(PiperVocoder(config), found["latents"], "plain"), whole.ravel(), atol=1e-6
    )
    assert found["durations"].sum() == len(found["latents"])
    assert len(found["durations"]) == owners[-1] + 1


def test_chunks_are_the_whole(acoustic, vocoder) -> None:
    for voice in ("toy", "two#ben"):
        latents = voiced(acoustic, voice)["latents"]
        frames = len(latents)
        whole, pieces = sound(vocoder, latents, voice), []
        assert len(whole) == frames * HOP
        for start, end in pairwise((0, 5, 20, frames)):
            first, last = max(0, start - CONTEXT), min(frames, end + CONTEXT)
            around = (start - first, last - end)
            pieces.append(sound(vocoder, latents[first:last], voice, *around))
        np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-6)


def test_a_seed_repeats_a_sound(acoustic) -> None:
    first, again, other = (voiced(acoustic, seed=seed)["latents"] for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert first.shape != other.shape or np.abs(first - other).max() > 0.1


def test_speakers_of_a_voice_sound_differently(acoustic, vocoder) -> None:
    latents = voiced(acoustic, "two#ann")["latents"]
    ann, ben, first = (sound(vocoder, latents, voice) for voice in ("two#ann", "two#ben", "two"))
    np.testing.assert_array_equal(ann, first)
    assert np.abs(ann - ben).max() > 0.01
    for voice, takes in (("two#eve", "two#SPEAKER with one of ann, ben"), ("toy#ann", "toy")):
        with pytest.raises(OptionError, match=f"takes {takes}; sent: '{voice}'"):
            voiced(acoustic, voice)


def test_sounds_are_written_as_the_voices_learned_them() -> None:
    known = {"^": [1], "_": [0], "$": [2], "ɚ": [3], "t": [4], "ʃ": [5, 6], " ": [7]}
    units, owners = units_of(f"{SILENCE}ʧəɹ Q{SILENCE}", known)
    assert units.tolist() == [1, 0, 4, 0, 5, 6, 0, 3, 0, 7, 0, 2]
    assert owners.tolist() == [0, 0, 1, 1, 1, 1, 1, 2, 2, 4, 4, 6]


def test_what_it_cannot_speak_is_refused(acoustic, vocoder) -> None:
    with pytest.raises(OptionError, match="takes toy, two; sent: 'nobody'"):
        voiced(acoustic, "nobody")
    with pytest.raises(InvalidRequestError, match=rf"frames of {CHANNELS} values"):
        sound(vocoder, np.zeros((4, 7), np.float32))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phoneme_type": "text"}, "phoneme_type 'text'; only espeak"),
        ({"espeak": {"voice": "de"}}, "of the language de: texts are read in English alone"),
        ({"language": {"code": "pt_BR"}}, "of the language pt_BR"),
        ({"audio": {}}, "bad.onnx.json is not Piper's: KeyError"),
        ({"phoneme_id_map": {**SETTINGS["phoneme_id_map"], "x": 5}}, "is not Piper's: TypeError"),
        ({"phoneme_id_map": {"a": [1], "^": [0]}}, r"lacks the units   ! \$ , \. "),
        ({"mask": "Add"}, "no masked latent before a HiFi-GAN, or several"),
        ({"decoder": "Softmax"}, "decoder has Softmax, which may hear all frames"),
        ({"name": "hibari"}, "hibari.onnx has the name of another voice"),
    ],
)
def test_an_unfit_voice_is_refused(tmp_path, changes, message) -> None:
    write_piper(tmp_path, **{"name": "bad", **changes})
    with pytest.raises(ConfigError, match=message):
        check_piper(tmp_path)


def test_an_incomplete_folder_is_refused(tmp_path, config) -> None:
    with pytest.raises(ConfigError, match=r"lacks NAME\.onnx; a voice of Piper has"):
        read_voices(tmp_path)
    path = write_piper(tmp_path)
    path.write_bytes(b"text")
    with pytest.raises(ConfigError, match="it is no ONNX model"):
        check_piper(tmp_path)
    Path(f"{path}.json").unlink()
    with pytest.raises(ConfigError, match=r"lacks toy\.onnx\.json"):
        read_voices(tmp_path)
    with pytest.raises(ConfigError, match="conch serve --piper FOLDER"):
        PiperVocoder(VoiceConfig(nice=0))
