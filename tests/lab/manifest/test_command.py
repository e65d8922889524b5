from pathlib import Path

import numpy as np
import pytest
import soundfile

from conch.scoring.manifest import read_manifest
from lab.__main__ import main


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for name in ("0", "1"):
        soundfile.write(tmp_path / f"7-8-{name}.flac", np.zeros(800), 8_000)
    (tmp_path / "7-8.trans.txt").write_text("7-8-0 YES\n7-8-1 NO\n7-8-2 GONE\n")
    return tmp_path


def test_a_manifest_is_written_beside_the_speech(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["manifest", str(corpus)]) == 0
    assert [item.text for item in read_manifest(corpus / "manifest.tsv")] == ["YES", "NO"]
    printed = capsys.readouterr()
    assert "manifest.tsv: LibriSpeech, utterances: 2 of " in printed.out
    assert "left out 1 that have a text but no audio file, such as " in printed.err
    assert "7-8-2.flac" in printed.err


def test_a_manifest_that_exists_is_replaced_only_by_name(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = corpus / "manifest.tsv"
    file.write_text("mine")
    assert main(["manifest", str(corpus)]) == 1
    assert f"{file} exists; name another one with -o" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert main(["manifest", str(corpus), "-o", str(file)]) == 0
    assert len(read_manifest(file)) == 2


def test_a_folder_without_speech(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifest", str(tmp_path)]) == 1
    assert "holds no speech of a known layout" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
