"""Folders as people have them: links, files of Windows, and nothing that may be changed."""

import codecs
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import ctc_toys
import funasr_toys
import onnx
import pytest
import transducer_toys
import wenet_toys
from toy_piper import write_piper
from whisper_toys import whisper_toy

from conch.catalogue import models
from conch.catalogue.checks import ModelSummary
from conch.catalogue.models import KINDS, checked, find, networks_of
from conch.families.ctc.folder import read_ctc
from conch.families.transducer.folder import read_transducer
from conch.wire.errors import ConfigError

TEXTS = {".txt", ".json", ".yaml", ".mvn", ".conf", ".int"}


def _moonshine(folder: Path) -> None:
    for name in models.known_models(KINDS["moonshine"])["moonshine-tiny"].files:
        (folder / name).write_bytes(b"\0")


def _kaldi(folder: Path) -> None:
    names = ("am/final.mdl", "conf/model.conf", "graph/HCLG.fst", "graph/words.txt")
    for name in (*names, "conf/mfcc.conf"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("--use-energy=false\n--num-ceps=40\n")


TOYS: dict[str, Callable[[Path], object]] = {
    "moonshine": _moonshine,
    "whisper": lambda folder: (whisper_toy(folder / "toy"),),
    "transducer": transducer_toys.zipformer2,
    "paraformer": funasr_toys.paraformer,
    "paraformer_online": funasr_toys.online_paraformer,
    "sensevoice": funasr_toys.sense_voice,
    "kaldi": _kaldi,
    "wenet": lambda folder: wenet_toys.gpu(folder, wenet_toys.U2pp(0), is_live=True),
    "ctc": ctc_toys.waveform,
    "piper": write_piper,
}
"""What makes a folder of each kind."""
WITH_NETWORKS = [name for name, kind in KINDS.items() if kind.networks]


def test_every_kind_has_a_toy() -> None:
    assert TOYS.keys() == KINDS.keys()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def once(kind: str) -> Path:
        folder = tmp_path_factory.mktemp(kind)
        made = TOYS[kind](folder)
        # Some have folders of their own; FunASR's are its own export, and that of sherpa-onnx.
        return made[0] if isinstance(made, tuple) else folder

    return once


@pytest.fixture
def plain(request: pytest.FixtureRequest, exported: Callable[[str], Path], tmp_path: Path) -> Path:
    """Return a folder of a kind as its export has written it."""
    return shutil.copytree(exported(request.param), tmp_path / "plain")


def every_kind(names: list[str]) -> pytest.MarkDecorator:
    pairs = [(name, name) for name in names]
    return pytest.mark.parametrize(("kind", "plain"), pairs, indirect=["plain"])


def snapshot_of(folder: Path, cache: Path) -> Path:
    """Return the files of a folder as the cache of Hugging Face has them: links to blobs."""
    snapshot, blobs = cache / "snapshots" / "5f3c", cache / "blobs"
    blobs.mkdir(parents=True)
    for path in filter(Path.is_file, folder.rglob("*")):
        link = snapshot / path.relative_to(folder)
        blob = blobs / hashlib.sha256(str(link).encode()).hexdigest()
        shutil.copyfile(path, blob)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    return snapshot


def summary(kind: str, folder: Path) -> ModelSummary:
    return replace(checked(KINDS[kind], folder), size=0)


@every_kind([*KINDS])
def test_links_are_files(kind: str, plain: Path, tmp_path: Path) -> None:
    snapshot = snapshot_of(plain, tmp_path / "models--toy")
    assert find(KINDS[kind], str(snapshot)) == snapshot
    assert checked(KINDS[kind], snapshot) == checked(KINDS[kind], plain)


@every_kind([*KINDS])
def test_texts_of_windows_are_texts(kind: str, plain: Path) -> None:
    before = summary(kind, plain)
    networks = networks_of(KINDS[kind], plain)
    texts = [path for path in plain.rglob("*") if path.suffix in TEXTS]
    for path in texts:
        path.write_bytes(codecs.BOM_UTF8 + path.read_bytes().replace(b"\n", b"\r\n"))
    assert texts or kind == "moonshine"
    assert summary(kind, plain) == before
    assert networks_of(KINDS[kind], plain) == networks


@pytest.mark.parametrize(
    ("toy", "symbols"),
    [
        (transducer_toys.zipformer2, lambda folder: read_transducer(folder).tokens),
        (ctc_toys.icefall, lambda folder: read_ctc(folder).tokens),
        (ctc_toys.waveform, lambda folder: read_ctc(folder).tokens),
    ],
)
def test_symbols_of_windows_are_the_same(
    toy: Callable[[Path], Path], symbols: Callable[[Path], tuple[str, ...]], tmp_path: Path
) -> None:
    toy(tmp_path)
    before = symbols(tmp_path)
    for path in (*tmp_path.rglob("*.txt"), *tmp_path.rglob("*.json")):
        path.write_bytes(codecs.BOM_UTF8 + path.read_bytes().replace(b"\n", b"\r\n"))
    assert symbols(tmp_path) == before


@every_kind(WITH_NETWORKS)
def test_weights_beside_a_network_may_be_links(kind: str, plain: Path, tmp_path: Path) -> None:
    before = summary(kind, plain)
    for path in [*plain.rglob("*.onnx")]:
        network, name = onnx.load(path), f"{path.name}.data"
        onnx.save(network, path, save_as_external_data=True, location=name, size_threshold=0)
    snapshot = snapshot_of(plain, tmp_path / "models--toy")
    assert [*snapshot.rglob("*.onnx.data")]
    assert summary(kind, snapshot) == before
    (snapshot / next(snapshot.rglob("*.onnx.data"))).unlink()
    with pytest.raises(ConfigError, match=r"lacks .*\.onnx\.data, which holds weights of"):
        find(KINDS[kind], str(snapshot))


@contextmanager
def another_user() -> Iterator[None]:
    """Let the block run without the rights of root; other users have none anyway."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        os.setegid(65534)
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        os.setegid(group)


@every_kind([*KINDS])
def test_a_folder_of_another_user_need_not_be_writable(kind: str, plain: Path) -> None:
    before = checked(KINDS[kind], plain)
    for path in (*plain.rglob("*"), plain):
        path.chmod(0o555 if path.is_dir() else 0o444)
    # Those above it may not be listed.
    above = [path for path in plain.parents if path.stat().st_mode & 0o077 == 0]
    for path in above:
        path.chmod(0o711)
    try:
        with another_user():
            assert find(KINDS[kind], str(plain)) == plain
            assert checked(KINDS[kind], plain) == before
        plain.chmod(0o311)
        with another_user(), pytest.raises(ConfigError, match=r"it cannot be read: .* denied"):
            find(KINDS[kind], str(plain))
    finally:
        for path in above:
            path.chmod(0o700)
        plain.chmod(0o755)
