"""What is made once is whole, is the user's own, and is made again by nobody."""

import os
import stat
import threading
from pathlib import Path

import pytest

from conch.cache import cached
from conch.wire.errors import ConfigError


def write_file(path: Path) -> None:
    path.write_bytes(b"a file")


def write_folder(path: Path) -> None:
    path.mkdir()
    (path / "part").write_bytes(b"a part")


def refuse(path: Path) -> None:
    raise AssertionError("made again")


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "conch"


@pytest.fixture
def only_temporary(tmp_path, monkeypatch) -> Path:
    """Return the folder beside temporary files, where no other can be written to."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"conch-{os.getuid()}"


@pytest.mark.parametrize("make", [write_file, write_folder])
def test_it_is_made_once_and_nothing_else_is_left(cache, make):
    path = cached("name", "it", make)
    assert path == cache / "name"
    assert cached("name", "it", refuse) == path
    assert list(cache.iterdir()) == [path]


def test_what_fails_half_way_leaves_nothing(cache):
    def fail(path: Path) -> None:
        write_folder(path)
        raise ConfigError("broken source")

    with pytest.raises(ConfigError, match="broken source"):
        cached("name", "it", fail)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("make", [write_file, write_folder])
def test_two_that_make_it_at_once_both_have_it(cache, make):
    both_make = threading.Barrier(2, timeout=30)
    found = []

    def slowly(path: Path) -> None:
        make(path)
        both_make.wait()

    threads = [
        threading.Thread(target=lambda: found.append(cached("name", "it", slowly)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [cache / "name"] * 2
    assert list(cache.iterdir()) == [cache / "name"]


def test_a_cache_that_cannot_be_written_to_is_no_trouble(only_temporary):
    path = cached("name", "it", write_file)
    assert path.parent == only_temporary
    assert path.read_bytes() == b"a file"
    assert stat.S_IMODE(only_temporary.stat().st_mode) == 0o700
    assert cached("name", "it", refuse) == path


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o750, 0o755])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_that_others_may_enter_is_refused(only_temporary, mode, is_there):
    if is_there:
        cached("name", "it", write_file)
    only_temporary.mkdir(exist_ok=True)
    only_temporary.chmod(mode)
    expected = rf"^it cannot be kept: .*{only_temporary} .* mode 0{mode:o}.*XDG_CACHE_HOME"
    with pytest.raises(ConfigError, match=expected):
        cached("name", "it", write_file)


def test_a_folder_of_somebody_else_is_refused(only_temporary, monkeypatch):
    only_temporary.mkdir(mode=0o700)
    other = os.getuid() + 1
    monkeypatch.setattr("os.getuid", lambda: other)
    only_temporary.rename(only_temporary.with_name(f"conch-{other}"))
    with pytest.raises(ConfigError, match=rf"conch-{other} is uid {other - 1}'s"):
        cached("name", "it", write_file)


def test_a_link_in_place_of_the_folder_is_refused(only_temporary, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    only_temporary.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=f"{only_temporary} is no folder"):
        cached("name", "it", write_file)
    assert not list((tmp_path / "elsewhere").iterdir())
