"""What is made once is whole, is the user's own, and is not made again."""

import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from waiting import wait_until

from conch.cache import cached, cached_arrays, cached_folder, digest_of
from conch.wire.errors import ConfigError


def write_file(path: Path) -> None:
    path.write_bytes(b"a file")


def write_folder(path: Path) -> None:
    path.mkdir()
    (path / "part").write_bytes(b"a part")


def refuse(path: Path) -> None:
    raise AssertionError("made again")


def kept(cache: Path) -> list[str]:
    """Return what is in a cache, without the files of locks."""
    return [path.name for path in cache.iterdir() if not path.name.endswith(".lock")]


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "conch"


@pytest.fixture
def only_temporary(tmp_path, monkeypatch) -> Path:
    """Return the folder next to temporary files, where no other can be written to."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"conch-{os.getuid()}"


@pytest.mark.parametrize("make", [write_file, write_folder])
def test_it_is_made_once_and_nothing_else_is_left(cache, make):
    path = cached("name", "it", make)
    assert path == cache / "name"
    assert cached("name", "it", refuse) == path
    assert kept(cache) == ["name"]


def test_what_fails_half_way_leaves_nothing(cache):
    def fail(path: Path) -> None:
        write_folder(path)
        raise ConfigError("broken source")

    with pytest.raises(ConfigError, match="broken source"):
        cached("name", "it", fail)
    assert kept(cache) == []


def test_what_a_killed_process_left_is_removed_after_a_day(cache):
    cached("first", "it", write_file)
    for name, age_s in (("old", 90_000), ("new", 3600)):
        left = cache / f".making-{name}"
        write_folder(left)
        os.utime(left, (time.time() - age_s,) * 2)
    cached("second", "it", write_file)
    assert sorted(kept(cache)) == [".making-new", "first", "second"]


@pytest.mark.parametrize("make", [write_file, write_folder])
def test_of_two_that_want_it_at_once_one_makes_it(cache, make, caplog):
    caplog.set_level("INFO", "conch.cache")
    found, made = [], []

    def slowly(path: Path) -> None:
        made.append(path)
        other.start()
        # The other one is here only once it has met the lock.
        wait_until(lambda: "another program makes it: waiting for it" in caplog.text)
        make(path)

    other = threading.Thread(target=lambda: found.append(cached("name", "it", refuse)))
    found.append(cached("name", "it", slowly))
    other.join()
    assert found == [cache / "name"] * 2
    assert len(made) == 1
    assert kept(cache) == ["name"]


@pytest.mark.parametrize("damage", ["part", "sums.json"])
@pytest.mark.parametrize("content", [b"A part", b"", None])
def test_a_damaged_folder_is_made_again(cache, caplog, damage, content):
    path = cached_folder("name", "it", write_folder)
    assert cached_folder("name", "it", refuse) == path
    assert caplog.messages == ["making it as name, once: it takes some seconds"]
    if content is None:
        (path / damage).unlink()
    else:
        (path / damage).write_bytes(content)
    assert cached_folder("name", "it", write_folder) == path
    assert (path / "part").read_bytes() == b"a part"
    assert f"it in {path} is damaged" in caplog.text
    assert cached_folder("name", "it", refuse) == path
    assert kept(cache) == ["name"]


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


def arrays() -> dict[str, np.ndarray]:
    return {"keys": np.arange(5000), "costs": np.linspace(0, 1, 700, dtype=np.float32)}


def refuse_arrays() -> dict[str, np.ndarray]:
    raise AssertionError("made again")


def is_mapped(array: np.ndarray) -> bool:
    return isinstance(array.base, np.memmap) and not array.flags.writeable


def same(found, expected) -> bool:
    return found.keys() == expected.keys() and all(
        found[key].dtype == array.dtype and np.array_equal(found[key], array)
        for key, array in expected.items()
    )


def test_arrays_are_made_once_and_mapped_by_both(cache):
    first = cached_arrays("name", "they", arrays)
    second = cached_arrays("name", "they", refuse_arrays)
    for found in (first, second):
        assert same(found, arrays())
        assert all(map(is_mapped, found.values()))
    assert kept(cache) == ["name"]


def test_two_processes_map_the_same_file(cache):
    code = (
        "import numpy as np; from conch.cache import cached_arrays\n"
        "found = cached_arrays('name', 'they', lambda: {'keys': np.arange(5000)})\n"
        "print(isinstance(found['keys'].base, np.memmap), found['keys'].sum(), flush=True)\n"
        "print(*(line.split()[4] for line in open('/proc/self/maps') if 'keys.npy' in line))\n"
    )
    # At once, so that each may be the first.
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        out, _ = process.communicate(timeout=60)
        is_memmap, total, inode = out.split()
        assert (is_memmap, total) == ("True", str(sum(range(5000))))
        assert int(inode) == (cache / "name" / "keys.npy").stat().st_ino


def a_file_instead(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_bytes(b"")


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: os.truncate(folder / "keys.npy", (folder / "keys.npy").stat().st_size - 8),
        lambda folder: (folder / "costs.npy").write_bytes(b""),
        lambda folder: (folder / "keys.npy").unlink(),
        lambda folder: (folder / "sizes.json").unlink(),
        lambda folder: (folder / "sizes.json").write_text('{"keys": 8}'),
        lambda folder: (folder / "sizes.json").write_text("[]"),
        lambda folder: (folder / "keys.npy").write_bytes(b"not an array of numpy" * 100),
        a_file_instead,
    ],
)
def test_what_is_broken_is_made_again(cache, caplog, damage):
    cached_arrays("name", "they", arrays)
    damage(cache / "name")
    found = cached_arrays("name", "they", arrays)
    assert same(found, arrays())
    assert all(map(is_mapped, found.values()))
    assert "are broken, and are made again" in caplog.text
    assert kept(cache) == ["name"]
    assert same(cached_arrays("name", "they", refuse_arrays), arrays())


def test_arrays_that_nobody_can_keep_are_in_memory(only_temporary, caplog):
    only_temporary.write_text("in the way")
    calls = []
    found = cached_arrays("name", "they", lambda: calls.append(1) or arrays())
    assert same(found, arrays())
    assert not any(map(is_mapped, found.values()))
    assert len(calls) == 1
    assert "they cannot be kept" in caplog.text


def test_a_source_that_is_broken_is_an_error(cache):
    def fail() -> dict[str, np.ndarray]:
        raise ConfigError("broken source")

    with pytest.raises(ConfigError, match="broken source"):
        cached_arrays("name", "they", fail)
    assert kept(cache) == []


def test_a_digest_changes_with_the_file_and_with_the_texts(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    digests = {digest_of(path), digest_of(path, "a", "b"), digest_of(path, "ab")}
    path.write_bytes(b"contents")
    digests.add(digest_of(path))
    assert len(digests) == 4
    assert all(len(digest) == 16 for digest in digests)
