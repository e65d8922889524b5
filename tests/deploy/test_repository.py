"""Triton repositories of the networks of folders; ONNX Runtime stands for Triton's backend."""

import errno
import shutil
from pathlib import Path

import ctc_toys
import funasr_toys
import nemo_toys
import onnx
import onnxruntime
import pytest
import transducer_toys
import wenet_toys
from asked_networks import as_network, asked, config_of, kind_of
from whisper_toys import whisper_toy

from conch.cli import main
from conch.deploy.repository import CONTAINER, Model, TensorSpec, write_repository
from conch.families.transducer.folder import networks_of_transducer
from conch.wire.errors import ConfigError

TYPES = {"FP32": "tensor(float)", "INT32": "tensor(int32)", "INT64": "tensor(int64)"}
TOYS = {
    "offline": lambda path: transducer_toys.offline(path),
    "zipformer2": lambda path: transducer_toys.zipformer2(path),
    "tdt": lambda path: nemo_toys.tdt(path),
    "icefall": lambda path: ctc_toys.icefall(path),
    "wenet": lambda path: ctc_toys.wenet(path),
    "nemo": lambda path: ctc_toys.nemo(path),
    "waveform": lambda path: ctc_toys.waveform(path),
    "paraformer": lambda path: funasr_toys.paraformer(path, takes_hotwords=True)[0],
    "sensevoice": lambda path: funasr_toys.sense_voice(path)[1],
    "online": lambda path: funasr_toys.online_paraformer(path)[1],
    "u2 recordings": lambda path: wenet_toys.gpu(path, wenet_toys.U2pp(0), is_live=False),
    "u2 chunks": lambda path: wenet_toys.cpu(path, wenet_toys.U2pp(0)),
    "u2 one chunk": lambda path: wenet_toys.cpu(path, wenet_toys.U2pp(0), chunk=-1, left=-1),
}


def exported(folder: Path, target: Path, *flags: str) -> Path:
    assert main(["models", "export-repository", str(folder), "-o", str(target), *flags]) == 0
    return target


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return transducer_toys.offline(tmp_path / "toy")


@pytest.mark.parametrize(
    ("toy", "batches"),
    [
        ("offline", {"encoder": 64, "decoder": 64, "joiner": 64}),
        ("zipformer2", {"decoder": 64, "joiner": 64}),
        ("tdt", {"encoder": 64, "decoder": 0, "joiner": 64}),
        ("icefall", {"model": 64}),
        ("wenet", {"model": 64}),
        ("nemo", {"model": 64}),
        ("waveform", {"model": 64}),
        ("paraformer", {"model": 0, "hotwords": 0}),
        ("sensevoice", {"model": 64}),
        ("online", {"encoder": 64}),
        ("u2 recordings", {"encoder": 64, "decoder": 64}),
        ("u2 chunks", {"ctc": 0, "decoder": 0}),
        ("u2 one chunk", {"encoder": 0, "ctc": 0, "decoder": 0}),
    ],
)
def test_configs_are_those_of_the_networks(tmp_path, toy, batches):
    folder = TOYS[toy](tmp_path / "toy")
    target = exported(folder, tmp_path / "made")
    models = {path.name: path for path in target.iterdir() if path.is_dir()}
    assert {*models} == {f"{folder.name}_{part}" for part in batches}
    for part, most in batches.items():
        model = models[f"{folder.name}_{part}"]
        config, network = config_of(model), onnxruntime.InferenceSession(model / "1/model.onnx")
        assert (config.backend, config.max_batch_size) == ("onnxruntime", most)
        assert config.HasField("dynamic_batching") == bool(most)
        for said, known in (
            (config.input, network.get_inputs()),
            (config.output, network.get_outputs()),
        ):
            assert [(item.name, TYPES[kind_of(item)]) for item in said] == [
                (item.name, item.type) for item in known
            ]
            for item, value in zip(said, known, strict=True):
                # As the backend compares them: outputs to the number, with the batch in front.
                dims = [*(item.reshape.shape if item.HasField("reshape") else item.dims)]
                shape = [size if isinstance(size, int) else -1 for size in value.shape]
                assert [-1] * bool(most) + dims == shape
        for batch in (1, 3) if most else (1,):
            tensors = as_network(config, asked(config, batch))
            first, *_ = network.run(None, tensors)
            assert len(first) == (10 if part == "hotwords" else batch)
        assert f"## {model.name}\n" in (target / "README.md").read_text()


def test_what_is_said(tmp_path, capsys):
    folder = transducer_toys.zipformer2(tmp_path / "toy")
    target = exported(folder, tmp_path / "made", "--gpu", "--tensorrt")
    assert capsys.readouterr().out.splitlines() == [
        str(target),
        "toy_decoder: decoder.onnx, batches of up to 64",
        "toy_joiner: joiner.onnx, batches of up to 64",
        "left out: encoder-epoch-1-avg-1.onnx, which keeps what it heard from call to call; "
        "transducer_streaming_encoder of conch serve runs it",
        "README.md there says what callers compute, and how to serve it",
    ]
    config = config_of(target / "toy_joiner")
    assert [config.instance_group[0].Kind.Name(config.instance_group[0].kind)] == ["KIND_GPU"]
    (accelerator,) = config.optimization.execution_accelerators.gpu_execution_accelerator
    assert (accelerator.name, accelerator.parameters["precision_mode"]) == ("tensorrt", "FP32")
    readme = (target / "README.md").read_text()
    assert f"-v {target}:/models" in readme
    assert "| in `y` | INT64 | [-1, 2] |" in readme
    assert "| out `logit` | FP32 | [-1, 40] |" in readme
    assert "the last 2 units; before the first, the blank 0" in readme
    dockerfile = Path(__file__).parents[2] / "deploy" / "Dockerfile.gpu"
    assert f"BASE={CONTAINER}\n" in dockerfile.read_text()


def test_on_a_cpu(tmp_path, folder):
    target = exported(folder, tmp_path / "made", "--cpu")
    (group,) = config_of(target / "toy_encoder").instance_group
    assert group.Kind.Name(group.kind) == "KIND_CPU"
    readme = (target / "README.md").read_text()
    assert "--gpus" not in readme
    # As a client sends them.
    assert "| in `x` | FP32 | [-1, -1, 80] |\n| in `x_lens` | INT64 | [-1, 1] |" in readme


def test_float32_goes_before_int8_and_int8_requests_stay_apart(tmp_path, folder):
    joiner = onnx.load(folder / "joiner.onnx")
    before = onnx.helper.make_node("DynamicQuantizeLinear", ["encoder_out"], ["q", "s", "z"])
    joiner.graph.node.insert(0, before)
    onnx.save(joiner, folder / "joiner.int8.onnx")
    plain = exported(folder, tmp_path / "plain") / "toy_joiner"
    assert (plain / "1/model.onnx").samefile(folder / "joiner.onnx")
    (folder / "joiner.onnx").unlink()
    int8 = config_of(exported(folder, tmp_path / "int8") / "toy_joiner")
    assert (int8.max_batch_size, int8.HasField("dynamic_batching")) == (64, False)
    assert "Triton joins no requests" in (tmp_path / "int8" / "README.md").read_text()


def test_weights_beside_a_network_go_with_it(tmp_path, folder):
    model = onnx.load(folder / "encoder.onnx")
    more = {"save_as_external_data": True, "location": "encoder.weights", "size_threshold": 999}
    onnx.save(model, folder / "encoder.onnx", **more)
    version = exported(folder, tmp_path / "made") / "toy_encoder" / "1"
    assert {path.name for path in version.iterdir()} == {"model.onnx", "encoder.weights"}
    onnxruntime.InferenceSession(version / "model.onnx")


def test_a_file_of_another_disk_is_copied(tmp_path, folder, monkeypatch):
    (folder / "joiner.onnx").rename(tmp_path / "blob")
    (folder / "joiner.onnx").symlink_to(tmp_path / "blob")
    model = exported(folder, tmp_path / "linked") / "toy_joiner/1/model.onnx"
    assert model.samefile(tmp_path / "blob")
    assert not model.is_symlink()

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr("os.link", refuse)
    model = exported(folder, tmp_path / "copied") / "toy_joiner/1/model.onnx"
    assert not model.samefile(tmp_path / "blob")
    assert model.read_bytes() == (tmp_path / "blob").read_bytes()


def test_only_an_earlier_export_is_replaced(tmp_path, folder, capsys):
    command = ["models", "export-repository", str(folder), "-o", str(tmp_path / "made")]
    (tmp_path / "made").mkdir()
    assert main(command) == 0
    assert main(command) == 1
    assert "an earlier export is there: --force replaces it" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "made" / "toy_joiner")
    assert main([*command, "--force"]) == 0
    assert (tmp_path / "made" / "toy_joiner").is_dir()
    (tmp_path / "made" / "README.md").write_text("# My thesis\n")
    assert main([*command, "--force"]) == 1
    assert "--out takes a new or an empty folder" in capsys.readouterr().err
    assert (tmp_path / "made" / "README.md").read_text() == "# My thesis\n"
    assert [path.name for path in tmp_path.glob(".making*")] == []


def test_without_a_name_it_is_beside_where_one_is(tmp_path, folder, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy").rename(tmp_path / "a toy")
    assert main(["models", "export-repository", "./a toy"]) == 0
    target = tmp_path / "a toy-triton"
    assert (target / "a_toy_joiner" / "config.pbtxt").is_file()
    assert f" -v '{target}:/models' " in (target / "README.md").read_text()


def test_folders_without_such_a_network(tmp_path, capsys):
    live = ctc_toys.icefall_live(tmp_path / "live")
    whisper = whisper_toy(tmp_path / "whisper")
    assert main(["models", "export-repository", str(live)]) == 1
    assert main(["models", "export-repository", str(whisper)]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith(
        f"keeps what it heard from call to call: conch serve --model {live} runs it"
    )
    assert second == (
        "conch models: export-repository takes Transducer, Paraformer, online Paraformer, "
        f"SenseVoice, WeNet, CTC; {whisper} holds Whisper"
    )


@pytest.mark.parametrize("flag", ["--gpu", "--tensorrt"])
def test_flags_that_do_not_go_together(folder, refused, flag):
    said = refused("models", "export-repository", str(folder), "--cpu", flag)
    assert f"--cpu does not go with {flag}" in said


def test_a_config_that_triton_does_not_know_is_not_written(tmp_path, folder):
    _, _, joiner = networks_of_transducer(folder)
    ends = {"inputs": (TensorSpec("x", "FP31", (-1, 2)),), "outputs": ()}
    model = Model(name="wrong", network=joiner, **ends)
    more = {"title": "", "device": "CPU", "tensorrt": False, "replaces": False}
    with pytest.raises(ConfigError, match=r"the config of wrong is none of Triton: .*FP31"):
        write_repository(tmp_path / "made", [model], **more)
    assert not (tmp_path / "made").exists()
