"""A file is written whole or not at all."""

import os
from pathlib import Path

import pytest

from conch.whole import write_whole


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
