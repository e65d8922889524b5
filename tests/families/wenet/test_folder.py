"""Folders of WeNet: what is found in them, and what is refused before a server starts."""

import shutil
from pathlib import Path

import onnx
import pytest
import transducer_toys
import wenet_toys
import yaml
from onnx_metadata import change_metadata

from conch.catalogue.checks import UnfitModelError
from conch.catalogue.models import detect
from conch.families.wenet.folder import check_wenet, read_wenet

MODEL = wenet_toys.U2pp(0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("wenet")
    return {
        "gpu": wenet_toys.gpu(root / "gpu", MODEL, is_live=False, share=0.0),
        "live": wenet_toys.gpu(root / "live", MODEL, is_live=True),
        "cpu": wenet_toys.cpu(root / "cpu", MODEL),
    }


@pytest.fixture
def folder(made: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return shutil.copytree(made[request.param], tmp_path / "toy")


def all_of(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("folder", [name], indirect=True)


@pytest.mark.parametrize(
    ("kind", "family", "is_live"),
    [
        ("gpu", "WeNet U2, exported for GPUs", False),
        ("live", "WeNet U2++, exported for GPUs", True),
        ("cpu", "WeNet U2++, exported for CPUs", True),
    ],
)
def test_what_a_folder_is(made, kind, family, is_live):
    found, path, model = detect(str(made[kind]))
    assert (found.name, path) == ("wenet", made[kind])
    assert (model.family, model.units, model.is_live) == (family, wenet_toys.UNITS, is_live)
    assert model.features == "80 mel filters of Kaldi, every 10 ms"
    read = read_wenet(path)
    assert read.edges == (wenet_toys.EDGE, wenet_toys.EDGE)
    if is_live:
        assert (read.encoder.chunk, read.encoder.shift, read.encoder.least) == (35, 32, 7)


@all_of("live")
def test_files_in_the_folder_of_the_training(folder):
    (folder / "onnx").mkdir()
    for name in ("encoder.onnx", "decoder.onnx", "config.yaml"):
        (folder / name).rename(folder / "onnx" / name)
    training = {"encoder": "conformer", "output_dim": wenet_toys.UNITS, "dataset_conf": {}}
    (folder / "train.yaml").write_text(yaml.safe_dump(training))
    assert check_wenet(folder).is_live
    (folder / "units.txt").rename(folder / "words.txt")
    assert check_wenet(folder).units == wenet_toys.UNITS
    (folder / "train.yaml").write_text(yaml.safe_dump({**training, "output_dim": 40}))
    with pytest.raises(UnfitModelError, match=r"its words\.txt has 39 units and .* writes 40"):
        check_wenet(folder)


@pytest.mark.parametrize(
    ("folder", "lacking"),
    [
        ("gpu", "encoder.onnx"),
        ("gpu", "decoder.onnx"),
        ("gpu", "units.txt"),
        ("live", "config.yaml"),
        ("cpu", "ctc.onnx"),
    ],
    indirect=["folder"],
)
def test_half_a_folder(folder, lacking):
    (folder / lacking).unlink()
    with pytest.raises(UnfitModelError, match=rf"^it lacks {lacking}"):
        check_wenet(folder)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"encoder": "squeezeformer"}, "has encoder 'squeezeformer'; those served are conformer"),
        ({"encoder_conf": {"input_layer": "linear"}}, "has input_layer 'linear'; conv2d, conv2d6"),
        ({"encoder_conf": {"input_layer": ["conv2d"]}}, r"has input_layer .*; conv2d, conv2d6"),
        ({"dataset_conf": {"resample_conf": {"resample_rate": 8000}}}, "resample_rate 8000, not"),
        ({"dataset_conf": {"feats_type": "log_mel_spectrogram"}}, "feats_type .*, not fbank"),
        ({"dataset_conf": {"fbank_conf": {"frame_length": 32}}}, "has frame_length 32, not 25"),
        ([1], r"its train\.yaml is no list of names and values"),
    ],
)
@all_of("gpu")
def test_a_training_of_another_kind(folder, training, message):
    (folder / "train.yaml").write_text(yaml.safe_dump(training))
    with pytest.raises(UnfitModelError, match=message):
        check_wenet(folder)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"decoding_chunk_size": 16}, r"takes 35 frames and its config\.yaml says 67"),
        ({"beam_size": "ten"}, r"its config\.yaml has no number beam_size"),
        ({"subsampling_rate": 1}, r"its config\.yaml has no number subsampling_rate"),
    ],
)
@all_of("live")
def test_a_config_of_another_model(folder, changed, message):
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changed}))
    with pytest.raises(UnfitModelError, match=message):
        check_wenet(folder)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"chunk_size": ""}, "have no number 'chunk_size'"),
        ({"reverse_weight": "half"}, "have no reverse_weight"),
        ({"vocab_size": "40"}, r"its units\.txt has 39 units and its encoder\.onnx writes 40"),
    ],
)
@all_of("cpu")
def test_metadata_of_another_model(folder, metadata, message):
    change_metadata(folder / "encoder.onnx", **metadata)
    with pytest.raises(UnfitModelError, match=message):
        check_wenet(folder)


@all_of("cpu")
def test_an_encoder_whose_output_has_another_name(folder):
    path = folder / "encoder.onnx"
    model = onnx.load(path)
    onnx.save(onnx.compose.add_prefix(model, "my_", rename_inputs=False), path)
    with pytest.raises(UnfitModelError, match=r"its encoder\.onnx gives no output"):
        check_wenet(folder)


@all_of("gpu")
def test_networks_that_do_not_go_together(made, folder):
    shutil.copy(made["cpu"] / "decoder.onnx", folder / "decoder.onnx")
    with pytest.raises(UnfitModelError, match=r"takes encoder_out, hyps, .* gives best_index"):
        check_wenet(folder)
    shutil.copy(made["live"] / "decoder.onnx", folder / "encoder.onnx")
    with pytest.raises(UnfitModelError, match="takes encoder_out; that of WeNet takes speech,"):
        check_wenet(folder)


def test_a_transducer_is_no_wenet(tmp_path):
    with pytest.raises(UnfitModelError, match=r"^it lacks units\.txt or lang_char\.txt|takes x;"):
        check_wenet(transducer_toys.lstm(tmp_path / "toy"))
