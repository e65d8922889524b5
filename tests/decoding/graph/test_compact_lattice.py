"""The lattice in Kaldi's text form, read back by kaldifst."""

import random
from collections import defaultdict
from itertools import product
from math import inf
from typing import Any

import numpy as np
import pytest
from graph_toys import ARPA, LETTERS, SUBWORDS, ToyUnits, random_log_probs
from kaldi_lattice import best_path, read

from conch.decoding.graph.compact_lattice import ONE, CompactLattice, Weight, compact_lattice
from conch.decoding.graph.fst_arrays import FstArrays, fst_arrays
from conch.decoding.graph.search import DecodingGraph, WfstConfig, WfstStream
from conch.decoding.hypothesis import PathUnit, spelled_words, unit_runs
from conch.decoding.ngram.files import read_ngrams
from conch.graphs.build import GraphConfig, build_graph

CONFIG = WfstConfig(
    acoustic_scale=1.5, blank_penalty=0.5, beam=200, max_active=10_000, lattice_beam=12
)
SEEDS = range(4)


@pytest.fixture(scope="module", params=[LETTERS, SUBWORDS], ids=["letters", "subwords"])
def graph(tmp_path_factory, request) -> DecodingGraph:
    folder = tmp_path_factory.mktemp("lattice")
    (folder / "toy.arpa").write_text(ARPA)
    path = folder / "toy.fst"
    table = read_ngrams(folder / "toy.arpa")
    build_graph(path, request.param, table, None, GraphConfig(prune=0.0))
    return DecodingGraph(path, request.param.vocab)


def finished(graph: DecodingGraph, seed: int, nbest: int = 5, **config: Any) -> tuple[Any, Any]:
    units = ToyUnits(graph.vocab)
    stream = WfstStream(graph, CONFIG if not config else WfstConfig(**config))
    stream.advance(random_log_probs(seed, 14, units))
    return stream, stream.finish(nbest, has_lattice=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_path_is_the_transcript_with_its_scores_and_times(
    graph: DecodingGraph, seed: int
) -> None:
    config = WfstConfig(acoustic_scale=1.0, blank_penalty=0.5, beam=200, max_active=10_000)
    stream = WfstStream(graph, config)
    log_probs = random_log_probs(seed, 14, ToyUnits(graph.vocab))
    stream.advance(log_probs)
    (best,) = stream.finish(1, has_lattice=True)
    labels, words, graph_cost, acoustic_cost = best_path(read(stream.lattice_text()))
    assert " ".join(words) == best.text
    assert acoustic_cost == pytest.approx(-best.am_score, abs=1e-2)
    bonus = graph.word_bonus * len(words)
    assert graph_cost == pytest.approx(-best.lm_score - bonus, abs=1e-2)
    assert graph_cost + acoustic_cost == pytest.approx(-best.score, abs=1e-2)
    assert len(labels) == len(log_probs)
    units = np.array(labels) - 1
    path = log_probs[np.arange(len(units)), units]
    runs = (item.tolist() for item in unit_runs(units, path))
    texts = graph.vocab
    timed = spelled_words(PathUnit(texts[unit], *item) for unit, *item in zip(*runs, strict=True))
    assert [(item.start_frame, item.end_frame) for item in timed] == [
        (item.start_frame, item.end_frame) for item in best.words
    ]


def sentences(text: str, scale: float) -> dict[str, tuple[float, frozenset[str]]]:
    """All word sequences of a lattice, their costs and their lines; each must be there once."""
    leaving: dict[str, list[str]] = defaultdict(list)
    for line in text.splitlines():
        leaving[line.split("\t")[0]].append(line)
    found: dict[str, tuple[float, frozenset[str]]] = {}

    def walk(state: str, words: tuple[str, ...], cost: float, taken: frozenset[str]) -> None:
        for line in leaving[state]:
            columns = line.split("\t")
            graph_cost, acoustic_cost, _ = columns[-1].split(",")
            total = cost + float(graph_cost) + scale * float(acoustic_cost)
            if len(columns) == 2:
                assert " ".join(words) not in found
                found[" ".join(words)] = total, taken | {line}
            else:
                walk(columns[1], (*words, columns[2]), total, taken | {line})

    walk("0", (), 0.0, frozenset())
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lattice_holds_each_of_the_nbest_once_with_its_score(
    graph: DecodingGraph, seed: int
) -> None:
    stream, nbest = finished(graph, seed, nbest=8)
    text = stream.lattice_text()
    found = sentences(text, CONFIG.acoustic_scale)
    costs = {words: cost for words, (cost, _) in found.items()}
    assert len(nbest) > 1
    assert len(costs) >= len(nbest)
    for item in nbest:
        total = -item.score * CONFIG.acoustic_scale
        assert costs[item.text] == pytest.approx(total, abs=1e-2)
    ranked = sorted(costs, key=lambda text: costs[text])
    assert {item.text for item in nbest} == set(ranked[: len(nbest)])
    # Every line is part of a path within the beam.
    limit = min(costs.values()) + CONFIG.lattice_beam + 0.01
    near = [lines for cost, lines in found.values() if cost <= limit]
    assert frozenset().union(*near) == frozenset(text.splitlines())


def test_every_state_has_one_arc_a_word(graph: DecodingGraph) -> None:
    stream, _ = finished(graph, 0)
    arcs = [line.split("\t") for line in stream.lattice_text().splitlines()]
    starts = [(columns[0], columns[2]) for columns in arcs if len(columns) == 4]
    assert len(starts) == len(set(starts)) > 3
    assert arcs[0][0] == "0"


def test_a_lattice_that_is_too_large_has_fewer_paths(graph: DecodingGraph) -> None:
    stream, (best, *_) = finished(graph, 0)
    whole = stream.lattice_text()
    fewer = stream.lattice_text(max_labels=60)
    assert 0 < fewer.count("\n") < whole.count("\n")
    assert set(sentences(fewer, 1.5)) < set(sentences(whole, 1.5))
    _, words, graph_cost, acoustic_cost = best_path(read(stream.lattice_text(max_labels=1)))
    assert " ".join(words) == best.text
    total = graph_cost + CONFIG.acoustic_scale * acoustic_cost
    assert total == pytest.approx(-best.score * CONFIG.acoustic_scale, abs=1e-2)


def test_no_frames_are_no_lattice(graph: DecodingGraph) -> None:
    stream = WfstStream(graph, CONFIG)
    assert [item.text for item in stream.finish(3, has_lattice=True)] == [""]
    assert stream.lattice_text() == ""


def random_paths(rng: random.Random, num_frames: int, width: int) -> FstArrays:
    """States of some frames, with arcs that read a label or none, and carry a word or none."""
    rows: list[tuple[int, int, int, float, int]] = []
    for frame in range(num_frames):
        begin, behind = 1 + (frame - 1) * width, 1 + frame * width
        here = range(begin, behind) if frame else range(1)
        for source, target in product(here, range(behind, behind + width)):
            rows += [
                (source, word, rng.randint(1, 3), rng.uniform(0, 3), target)
                for word in (0, 1, 2)
                if rng.random() < 0.35
            ]
        if frame:
            rows += [
                (state, rng.randint(0, 2), 0, rng.uniform(0, 2), state + 1)
                for state in range(begin, behind - 1)
                if rng.random() < 0.4
            ]
    first_end, num_states = 1 + (num_frames - 1) * width, 1 + num_frames * width
    finals = {state: rng.random() for state in range(first_end, num_states)}
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return fst_arrays(num_states, *columns, finals=finals, start=0)


def every_text(paths: FstArrays) -> dict[tuple[int, ...], float]:
    """The cost of the best path of each word sequence, by trying all paths."""
    found: dict[tuple[int, ...], float] = defaultdict(lambda: inf)

    def walk(state: int, words: tuple[int, ...], cost: float) -> None:
        found[words] = min(found[words], cost + float(paths.finals[state]))
        for word, _, arc_cost, target in paths.arcs[slice(*paths.first[state : state + 2])]:
            walk(int(target), (*words, int(word)) if word else words, cost + float(arc_cost))

    walk(0, (), 0.0)
    return {words: cost for words, cost in found.items() if cost < inf}


def texts_of(lattice: CompactLattice) -> dict[tuple[int, ...], Weight]:
    """The weight of each word sequence; each must be there once."""
    found: dict[tuple[int, ...], Weight] = {}

    def walk(state: int, words: tuple[int, ...], weight: Weight) -> None:
        if state in lattice.finals:
            assert words not in found
            found[words] = weight.then(lattice.finals[state])
        for arc in lattice.arcs:
            if arc.source == state:
                walk(arc.target, (*words, arc.word), weight.then(arc.weight))

    walk(0, (), ONE)
    return found


@pytest.mark.parametrize("seed", range(80, 150))
def test_every_text_within_the_beam_is_there_with_its_least_cost(seed: int) -> None:
    rng = random.Random(seed)
    num_frames, beam = rng.randint(3, 5), rng.choice([1.0, 2.0, 4.0])
    paths = random_paths(rng, num_frames, rng.randint(1, 3))
    texts = every_text(paths)
    costs = np.random.default_rng(seed).uniform(0, 2, (num_frames, 3))
    least = min(texts.values(), default=0.0)
    near = {words: cost for words, cost in texts.items() if cost <= least + beam}
    lattice = compact_lattice(paths, costs, num_frames, 1.5, beam)
    assert lattice is not None
    found = texts_of(lattice) if texts else {}
    assert set(near) <= set(found) <= set(texts)
    for words, cost in near.items():
        assert found[words].cost == pytest.approx(cost, abs=1e-3)
        assert len(found[words].labels) == num_frames
