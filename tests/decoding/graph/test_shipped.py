import lzma
import os
import stat

import pytest

from conch.decoding.graph.search import DecodingGraph
from conch.decoding.graph.shipped import unpacked_graph
from conch.models.ctc.onnx_model import read_vocabulary
from conch.wire.errors import ConfigError


def test_it_is_unpacked_once_and_loads(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = unpacked_graph()
    assert path.parent == tmp_path / "conch"
    assert DecodingGraph(path, read_vocabulary("").texts).words
    written = path.stat().st_mtime_ns
    assert unpacked_graph() == path
    assert path.stat().st_mtime_ns == written
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_a_cache_that_cannot_be_written_to_is_no_trouble(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    packed = tmp_path / "small.xz"
    packed.write_bytes(lzma.compress(b"a graph"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert unpacked_graph(packed).read_bytes() == b"a graph"


@pytest.fixture
def only_temporary(tmp_path, monkeypatch):
    """Return a packed graph, and the temporary folder that it is unpacked into."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    packed = tmp_path / "small.xz"
    packed.write_bytes(lzma.compress(b"a graph"))
    return packed, tmp_path / f"conch-{os.getuid()}"


def test_a_folder_for_temporary_files_is_ones_own_alone(only_temporary):
    packed, folder = only_temporary
    path = unpacked_graph(packed)
    assert path.parent == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert unpacked_graph(packed) == path


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o750, 0o755])
@pytest.mark.parametrize("has_graph", [False, True])
def test_a_folder_that_others_may_enter_is_refused(only_temporary, mode, has_graph):
    packed, folder = only_temporary
    if has_graph:
        unpacked_graph(packed)
    folder.mkdir(exist_ok=True)
    folder.chmod(mode)
    with pytest.raises(ConfigError, match=rf"{folder} .* mode 0{mode:o}.*XDG_CACHE_HOME"):
        unpacked_graph(packed)


def test_a_folder_of_somebody_else_is_refused(only_temporary, monkeypatch):
    packed, folder = only_temporary
    folder.mkdir(mode=0o700)
    other = os.getuid() + 1
    monkeypatch.setattr("os.getuid", lambda: other)
    folder.rename(folder.with_name(f"conch-{other}"))
    with pytest.raises(ConfigError, match=rf"conch-{other} is uid {other - 1}'s"):
        unpacked_graph(packed)


def test_a_link_in_place_of_the_folder_is_refused(only_temporary, tmp_path):
    packed, folder = only_temporary
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=f"{folder} is no folder"):
        unpacked_graph(packed)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_broken_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"missing\.xz does not exist"):
        unpacked_graph(tmp_path / "missing.xz")
