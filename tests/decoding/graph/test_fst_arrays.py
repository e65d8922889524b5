"""A graph is mapped from its file, so that processes share it."""

import subprocess
import sys
from pathlib import Path

import kaldifst
import pytest
from graph_toys import ARPA, LETTERS, VOCAB

from conch.decoding.graph.fst_arrays import map_graphs, open_fst, write_fst
from conch.decoding.graph.search import DecodingGraph
from conch.decoding.ngram.files import read_ngrams
from conch.graphs.build import GraphConfig, build_graph

CAPTURED = {"capture_output": True, "text": True, "timeout": 120, "check": True}


@pytest.fixture
def path(tmp_path) -> Path:
    (tmp_path / "toy.arpa").write_text(ARPA)
    graph = tmp_path / "toy.fst"
    table = read_ngrams(tmp_path / "toy.arpa")
    build_graph(graph, LETTERS, table, config=GraphConfig(prune=0))
    return graph


def mappings(path: Path) -> int:
    return sum(str(path) in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_kaldifst_and_numpy_map_one_file(path):
    assert map_graphs()
    before = mappings(path)
    graph = DecodingGraph(path, VOCAB)
    by_numpy = mappings(path)
    fst = kaldifst.StdConstFst.read(str(path))
    assert before == 0
    assert mappings(path) > by_numpy
    assert fst.num_states == len(graph.arrays.states)
    assert not graph.arrays.arcs.flags.writeable


# Both libraries have an OpenFst, and the flag of the first that is loaded hides the other's.
@pytest.mark.parametrize("first", ["kaldifst", "kaldi_decoder"])
def test_whichever_library_is_loaded_first(first):
    code = f"import {first}; from conch.decoding.graph.fst_arrays import map_graphs"
    done = subprocess.run([sys.executable, "-c", f"{code}; print(map_graphs())"], **CAPTURED)
    assert done.stdout.strip() == "True"


def test_symbols_in_front_of_the_states_are_read_as_well(path, tmp_path):
    graph = open_fst(path)
    (_, units), (_, words) = graph.symbols
    fst = kaldifst.StdVectorFst(kaldifst.StdConstFst.read(str(path)))
    for attribute, texts in (("input_symbols", units), ("output_symbols", words)):
        table = kaldifst.SymbolTable()
        for key, text in enumerate(texts):
            table.add_symbol(text, key)
        setattr(fst, attribute, table)
    in_front = tmp_path / "front.fst"
    kaldifst.StdConstFst(fst).write(str(in_front))
    found = open_fst(in_front)
    assert [tuple(texts) for _, texts in found.symbols] == [tuple(units), tuple(words)]
    assert (found.arcs == graph.arcs).all()


def test_words_of_more_than_one_byte_and_none(path, tmp_path):
    words = ("<eps>", "", "é", "日本", "a b")
    arrays = open_fst(path).arrays()
    written = tmp_path / "words.fst"
    write_fst(written, arrays, symbols=(("in", ("x",)), ("out", words)))
    (_, _), (name, found) = open_fst(written).symbols
    assert (name, tuple(found), len(found)) == ("out", words, 5)
    assert (found[3], found[-1]) == ("日本", "a b")
    with pytest.raises(IndexError):
        found[5]
