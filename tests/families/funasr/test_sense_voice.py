"""A SenseVoice writes the same in sherpa-onnx and here, and tells the same beside its text."""

from pathlib import Path

import funasr_toys
import numpy as np
import pytest
import sherpa_onnx

from conch.component import Row
from conch.families.funasr.sense_voice import SenseVoiceComponent
from conch.families.search.graphs import FolderConfig
from conch.wire.errors import OptionError
from lab.baselines.same_text import tight

TELLS = ("language", "emotion", "event")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return funasr_toys.sense_voice(tmp_path_factory.mktemp("toys"), seed=2)


@pytest.fixture(scope="module")
def component(folders: tuple[Path, Path]) -> SenseVoiceComponent:
    return SenseVoiceComponent(FolderConfig(model=str(folders[0]), intra_threads=1))


@pytest.mark.parametrize(("language", "itn"), [("auto", False), ("en", True), ("ko", False)])
def test_both_write_and_tell_the_same(folders, waveforms, language, itn):
    original, converted = folders
    recognizer = sherpa_onnx.OfflineRecognizer.from_sense_voice(
        model=str(converted / "model.onnx"),
        tokens=str(converted / "tokens.txt"),
        language=language,
        use_itn=itn,
        num_threads=1,
    )
    parameters = {"language": language, "itn": itn, "beam_size": 1, "decoder": "sensevoice"}
    texts, told = [], set()
    for folder in (original, converted):
        component = SenseVoiceComponent(FolderConfig(model=str(folder), intra_threads=1))
        for waveform in waveforms:
            stream = recognizer.create_stream()
            stream.accept_waveform(16_000, waveform)
            recognizer.decode_stream(stream)
            expected = stream.result
            (found,) = component([Row({"waveform": waveform}, parameters)])
            text = found["hypotheses"][0].decode()
            assert tight(text) == tight(" ".join(expected.text.split()))
            starts = [round(time / 0.06) for time in found["word_starts"]]
            assert {*starts} <= {round(time / 0.06) for time in expected.timestamps}
            tags = [getattr(expected, name) for name in ("lang", "emotion", "event")]
            tags = [tag[2:-2].lower() for tag in tags]
            tags = ["" if tag in ("nospeech", "emo_unknown") else tag for tag in tags]
            assert [found[name][0].decode() for name in TELLS] == tags
            texts.append(text)
            told.add(tuple(tags))
    assert len({*texts}) == 3 and all(len(text) > 20 for text in texts)


def test_the_probability_of_a_language_is_that_among_all(component, waveforms):
    def probability(language: str) -> float:
        row = Row({"waveform": waveforms[0]}, {"language": language, "beam_size": 1})
        return float(component([row])[0]["language_probability"][0])

    assert np.isnan(probability("en"))
    assert 1 / 5 < probability("auto") < 1


def test_a_beam_takes_hotwords(component, waveforms):
    parameters = {"beam_size": 8, "nbest": 4}
    (plain,) = component([Row({"waveform": waveforms[0]}, parameters)])
    assert len({*plain["hypotheses"]}) == 4
    more = {**parameters, "hotwords": "公园:100"}
    (found,) = component([Row({"waveform": waveforms[0]}, more)])
    assert "公园" in found["hypotheses"][0].decode()
    assert "公园" not in plain["hypotheses"][0].decode()


def test_silence_too_short_for_a_frame_has_no_text(component):
    (found,) = component([Row({"waveform": np.zeros(300, np.float32)}, {"beam_size": 1})])
    assert [found[name][0] for name in ("hypotheses", *TELLS)] == [b""] * 4


def test_another_language_is_refused(component):
    row = Row({"waveform": np.zeros(16_000, np.float32)}, {"language": "de"})
    with pytest.raises(OptionError, match="'language' takes auto, zh, en, yue, ja, ko with this"):
        component([row])
