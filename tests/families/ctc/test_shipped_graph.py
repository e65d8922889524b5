import pytest

from conch.decoding.graph.search import DecodingGraph
from conch.families.ctc.decoder import unpacked_graph
from conch.families.ctc.vocabulary import read_vocabulary
from conch.wire.errors import ConfigError


def test_it_is_unpacked_once_and_loads(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = unpacked_graph()
    assert path.parent == tmp_path / "conch"
    assert DecodingGraph(path, read_vocabulary("").texts).words
    written = path.stat().st_mtime_ns
    assert unpacked_graph() == path
    assert path.stat().st_mtime_ns == written
    assert [item.name for item in path.parent.glob("[!.]*")] == [path.name]


def test_a_broken_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"missing\.xz does not exist"):
        unpacked_graph(tmp_path / "missing.xz")
