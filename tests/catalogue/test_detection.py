"""What a folder is, and what is said of one that is no model."""

from pathlib import Path

import pytest
from whisper_toys import whisper_toy

from conch.catalogue.models import detect
from conch.cli import main
from conch.wire.errors import ConfigError


def refused(asked: object, *, is_verbose: bool = False) -> str:
    with pytest.raises(ConfigError) as error:
        detect(str(asked), is_verbose=is_verbose)
    return str(error.value)


def test_the_nearest_kind_is_named_and_all_are_if_asked(tmp_path: Path) -> None:
    for name in ("encoder.onnx", "joiner.onnx", "tokens.txt"):
        (tmp_path / name).write_text("1")
    said = refused(tmp_path)
    assert "holds no complete model: as Transducer, it lacks decoder*.onnx; " in said
    assert "Whisper" not in said and said.endswith(f"conch models inspect -v {tmp_path}")
    first, *others = refused(tmp_path, is_verbose=True).splitlines()[1:]
    assert first.startswith("  as Transducer, it lacks decoder*.onnx")
    assert len(others) == 9


def test_a_folder_without_any_file_of_a_model(tmp_path: Path) -> None:
    assert "holds no complete model: it has no file of one." in refused(tmp_path)


def test_the_models_inside_a_folder_are_named(tmp_path: Path) -> None:
    mine = whisper_toy(tmp_path / "mine")
    whisper_toy(tmp_path / "other")
    said = refused(tmp_path)
    assert f"is no model, but the parent of some: {mine} (Whisper), {tmp_path}/other" in said


def test_a_pointer_of_git_lfs_is_no_network(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid x\n")
    (tmp_path / "tokens.txt").write_text("a 0\n")
    assert refused(tmp_path).endswith(
        "its model.onnx is a pointer of Git LFS, without the "
        "weights: git lfs pull in that folder fetches them"
    )


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("")
    asked = tmp_path / "model.onnx"
    assert refused(asked) == f"{asked}: a file; a model is its folder, such as {tmp_path}"


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("whisper-small", "; conch models convert openai/whisper-small makes one of a Whisper of"),
        ("some/whisper-x", "; conch models convert some/whisper-x makes one of a Whisper of"),
        ("moonshine-tny", "; did you mean moonshine-tiny?"),
        ("kokoro", "kokoro is no recogniser, and needs no flag: Kokoro-82M"),
    ],
)
def test_a_name_that_is_no_folder(models: Path, asked: str, hint: str) -> None:
    assert hint in refused(asked)


def test_a_model_of_huggingface_that_is_no_whisper_is_not_to_be_converted(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("1")
    (tmp_path / "config.json").write_text('{"model_type": "wav2vec2"}')
    assert "conch models convert" not in refused(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    assert f"conch models convert {tmp_path}" in refused(tmp_path)


def test_a_known_model_that_no_flag_chooses(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "inspect", "kokoro"]) == 0
    said = capsys.readouterr().out
    assert "not on this machine; to have it: conch models get kokoro" in said
    assert "no flag chooses it" in said
