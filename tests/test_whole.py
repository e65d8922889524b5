"""Files and folders appear whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from conch.whole import made_whole, making_of, write_private, write_whole


def write_file(path: Path) -> None:
    path.write_text("new")


def write_folder(path: Path) -> None:
    path.mkdir()
    (path / "part").write_text("new")
    (path / "link").symlink_to("nowhere")


def content(path: Path) -> str:
    return (path / "part" if path.is_dir() else path).read_text()


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize(
    ("before", "make"),
    [
        (None, write_file),
        (None, write_folder),
        (write_file, write_file),
        (write_file, write_folder),
        (write_folder, write_folder),
    ],
)
@pytest.mark.parametrize("name", ["name", "before", "\u00e9" * 127])
def test_it_takes_the_place_of_what_is_there(tmp_path, name, before, make, sync) -> None:
    target = tmp_path / name
    if before is not None:
        before(target)
    with made_whole(target, sync=sync) as made:
        make(made)
        (made.parent / "wheels").mkdir()
        assert target.exists() == (before is not None)
    assert content(target) == "new"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("make", [write_file, write_folder])
def test_what_fails_leaves_what_was_there(tmp_path, make) -> None:
    target = tmp_path / "name"
    make(target)
    with pytest.raises(KeyboardInterrupt), made_whole(target) as made:
        make(made)
        raise KeyboardInterrupt
    with pytest.raises(FileNotFoundError), made_whole(target):
        pass
    assert content(target) == "new"
    assert os.listdir(tmp_path) == ["name"]


def test_no_file_replaces_a_folder(tmp_path) -> None:
    write_folder(tmp_path / "name")
    with pytest.raises(IsADirectoryError), made_whole(tmp_path / "name") as made:
        write_file(made)
    assert content(tmp_path / "name") == "new"


def test_what_is_left_of_one_is_told_from_that_of_another(tmp_path) -> None:
    with made_whole(tmp_path / "toy-two") as made:
        made.write_text("")
        assert made.parent.name.startswith(making_of(tmp_path / "toy-two"))
        assert not made.parent.name.startswith(making_of(tmp_path / "toy"))


def test_a_private_file_is_its_owners_alone(tmp_path) -> None:
    path = tmp_path / "key"
    path.write_text("before")
    before = os.umask(0)
    try:
        write_private(path, b"secret")
    finally:
        os.umask(before)
    assert path.read_bytes() == b"secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_there_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("before")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_whole(tmp_path / "link.txt", "caf\u00e9 \udcff")
    assert (tmp_path / "real.txt").read_bytes() == b"caf\xc3\xa9 \xff"
    assert sorted(os.listdir(tmp_path)) == ["link.txt", "real.txt"]


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "old.txt").write_text("before")
    monkeypatch.setattr(Path, "replace", fail)
    for name in ("old.txt", "new.txt"):
        with pytest.raises(OSError, match="No space"):
            write_whole(tmp_path / name, "text")
    assert os.listdir(tmp_path) == ["old.txt"]
    assert (tmp_path / "old.txt").read_text() == "before"


def test_a_device_is_written_as_it_is() -> None:
    write_whole(Path("/dev/null"), "text")
    assert not Path("/dev/null").is_file()
