"""Folders of Kaldi: what is found in them, and what is refused before a server starts."""

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from conch.catalogue.checks import ModelSummary, UnfitModelError
from conch.catalogue.models import detect
from conch.families.kaldi.folder import check_kaldi
from conch.wire.errors import ConfigError

FILES = (
    *("am/final.mdl", "conf/model.conf", "graph/HCLr.fst", "graph/Gr.fst"),
    *("graph/disambig_tid.int", "ivector/final.ie", "ivector/final.dubm", "ivector/final.mat"),
    *("ivector/global_cmvn.stats", "ivector/online_cmvn.conf", "ivector/splice.conf"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder, with the package that would read it."""
    vosk = ModuleType("vosk")
    vosk.__spec__ = ModuleSpec("vosk", None)
    monkeypatch.setitem(sys.modules, "vosk", vosk)
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"1234")
    (tmp_path / "conf/mfcc.conf").write_text("--use-energy=false\n--num-ceps=40\n")
    return tmp_path


def test_what_a_folder_is(folder):
    size = sum((folder / name).stat().st_size for name in (*FILES, "conf/mfcc.conf"))
    expected = ModelSummary(None, size, family="Kaldi (nnet3)", features="40 MFCC", is_live=True)
    assert check_kaldi(folder) == expected
    assert detect(str(folder))[0].name == "kaldi"


def test_one_graph_is_enough_and_no_ivectors_too(folder):
    for name in ("HCLr.fst", "Gr.fst", "disambig_tid.int"):
        (folder / "graph" / name).unlink()
    for name in ("HCLG.fst", "words.txt"):
        (folder / "graph" / name).write_text("")
    for path in (folder / "ivector").iterdir():
        path.unlink()
    (folder / "ivector").rmdir()
    assert check_kaldi(folder).is_live


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("am/final.mdl", r"^it lacks am/final\.mdl; a Kaldi model has am, conf and graph"),
        ("ivector/final.ie", r"^it lacks ivector/final\.ie;"),
        ("graph/Gr.fst", r"^it lacks graph/HCLG\.fst, graph/words\.txt or graph/Gr\.fst;"),
    ],
)
def test_half_a_folder(folder, name, message):
    (folder / name).unlink()
    with pytest.raises(UnfitModelError, match=message):
        check_kaldi(folder)


def test_without_the_package_it_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "vosk", None)
    with pytest.raises(ConfigError, match=r"model: as Kaldi, it needs .* vosk: .*\.\[kaldi\]'"):
        detect(str(folder))
