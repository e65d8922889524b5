"""What a folder of FunASR is, and why half of one is refused."""

import json
import shutil
from pathlib import Path

import funasr_toys
import pytest
from onnx_metadata import change_metadata

from conch.catalogue.checks import UnfitModelError
from conch.catalogue.models import detect
from conch.families.funasr.folder import (
    check_paraformer,
    read_online_paraformer,
    read_paraformer,
    read_sense_voice,
)
from conch.wire.errors import ConfigError


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return funasr_toys.paraformer(tmp_path_factory.mktemp("toys"))


@pytest.fixture
def original(toys: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(toys[0], tmp_path / "funasr"))


@pytest.fixture
def converted(toys: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(toys[1], tmp_path / "sherpa"))


def test_what_a_paraformer_is(original, converted):
    found = read_paraformer(original, "float32")
    same = read_paraformer(converted, "float32")
    assert found.front_end == same.front_end
    assert found.tokens == same.tokens == tuple(funasr_toys.TOKENS)
    assert (found.num_ends, same.num_ends) == (1, 0)
    for folder in (original, converted):
        kind, where, said = detect(str(folder))
        assert (kind.name, where) == ("paraformer", folder)
        assert said.family == "Paraformer with times of words"
        assert said.features == "80 mel filters of Kaldi, 7 frames every 60 ms"
        assert (said.units, said.is_live) == (len(funasr_toys.TOKENS), False)


def test_which_file_is_taken(original):
    shutil.copy(original / "model.onnx", original / "model_quant.onnx")
    assert read_paraformer(original, "float32").network.name == "model.onnx"
    assert read_paraformer(original, "int8").network.name == "model_quant.onnx"
    (original / "model.onnx").unlink()
    assert read_paraformer(original, "float32").network.name == "model_quant.onnx"


@pytest.mark.parametrize(
    ("lacking", "message"),
    [
        ("model.onnx", r"^it lacks model\.onnx; a Paraformer has model\.onnx, am\.mvn, config"),
        ("am.mvn", r"^it lacks am\.mvn: how features are made is there, or in the metadata of mo"),
        ("config.yaml", r"^it lacks config\.yaml: how features are made"),
        ("tokens.json", r"^it lacks tokens\.json, tokens\.txt or \*\.bpe\.model"),
    ],
)
def test_half_a_folder(original, lacking, message):
    (original / lacking).unlink()
    with pytest.raises(UnfitModelError, match=message):
        check_paraformer(original)
    with pytest.raises(ConfigError, match="holds no complete model: as Paraformer, it lacks"):
        detect(str(original))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.onnx", "no model", r"^its model\.onnx is no ONNX model"),
        ("tokens.json", json.dumps(["<blank>", "a"]), r"has 2 units and its network writes 33"),
        ("tokens.json", "{}", r"^its tokens\.json is no list of tokens"),
        ("tokens.txt", "<blank> 0\n", r"has 1 units and its network writes 33"),
        ("am.mvn", "<AddShift> 2 2\n [ 1 2 ]\n<Rescale> 2 2\n [ 1 2 ]\n", "has 2 means and 2 dev"),
        ("am.mvn", "<AddShift> [ one ]", r"^its am\.mvn has a mean or a deviation that is none"),
        ("config.yaml", "model_conf: {}\n", r"^its config\.yaml has no frontend_conf"),
        ("config.yaml", "frontend_conf: [\n", r"^its config\.yaml is broken"),
        ("config.yaml", "frontend_conf: {fs: 8000}\n", r"config\.yaml has fs 8000; 16000 is"),
        ("config.yaml", "frontend_conf: {lfr_m: 0}\n", r"has lfr_m 0, no number from 1 on"),
        ("config.yaml", "frontend_conf: {lfr_m: 5, lfr_n: 3}\n", "5 frames of 80 filters are 400"),
        ("decoder.onnx", "", r"^it has decoder\*\.onnx: an online Paraformer is of another kind"),
        ("model_eb.onnx", "", r"takes speech, speech_lengths .* takes 3 inputs and gives 2 or mo"),
    ],
)
def test_a_file_of_another_model(original, name, content, message):
    (original / name).write_text(content)
    with pytest.raises(UnfitModelError, match=message):
        check_paraformer(original)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"model_type": "sense_voice_ctc"}, "is of type 'sense_voice_ctc', takes speech, speech_l"),
        ({"lfr_window_size": "few"}, "have no number 'lfr_window_size'"),
        ({"inv_stddev": "1,2"}, r"^the metadata of its model\.onnx has 560 means and 2 deviations"),
    ],
)
def test_metadata_of_another_model(converted, metadata, message):
    change_metadata(converted / "model.onnx", **metadata)
    with pytest.raises(UnfitModelError, match=message):
        check_paraformer(converted)


def test_what_a_sense_voice_is(tmp_path):
    original, converted = funasr_toys.sense_voice(tmp_path)
    for folder in (original, converted):
        kind, _, said = detect(str(folder))
        assert (kind.name, said.family, said.languages) == ("sensevoice", "SenseVoice", 5)
        found = read_sense_voice(folder, "float32")
        assert found.tokens == tuple(funasr_toys.VOICE_TOKENS)
        assert (found.languages["yue"], found.text_forms) == (7, (15, 14))
    (original / "tokens.json").unlink()
    with pytest.raises(UnfitModelError, match=r"^it lacks tokens\.json, tokens\.txt or \*\.bpe"):
        read_sense_voice(original, "float32")
    pieces = original / "chn_jpn_yue_eng_ko_spectok.bpe.model"
    pieces.write_bytes(funasr_toys.pieces_of(funasr_toys.VOICE_TOKENS))
    assert read_sense_voice(original, "float32").tokens == found.tokens
    pieces.write_bytes(b"no pieces")
    with pytest.raises(UnfitModelError, match=r"bpe\.model is no sentencepiece model"):
        read_sense_voice(original, "float32")


def test_what_an_online_paraformer_is(tmp_path):
    original, converted = funasr_toys.online_paraformer(tmp_path)
    for folder, encoder in ((original, "model.onnx"), (converted, "encoder.onnx")):
        kind, _, said = detect(str(folder))
        assert (kind.name, kind.flag) == ("paraformer_online", "--paraformer-online")
        assert (said.family, said.is_live) == ("online Paraformer", True)
        found = read_online_paraformer(folder, "float32")
        assert (found.network.name, found.decoder.name) == (encoder, "decoder.onnx")
        assert (found.size, found.caches) == (32, ((1, 32, 5), (1, 32, 5)))
    shutil.copy(original / "model.onnx", original / "decoder.onnx")
    with pytest.raises(UnfitModelError, match="have 2 and 2 inputs, and 3 and 3 outputs, which an"):
        read_online_paraformer(original, "float32")
    (converted / "decoder.onnx").unlink()
    with pytest.raises(UnfitModelError, match=r"^it lacks decoder\.onnx, and encoder\.onnx or"):
        read_online_paraformer(converted, "float32")
