"""Kaldi's text form of a compact lattice, read by kaldifst."""

from collections import defaultdict
from typing import Any, NamedTuple

import kaldifst


class Read(NamedTuple):
    lattice: Any
    """From labels to words; weights are graph and acoustic cost."""
    words: list[str]
    """By label."""


def read(text: str) -> Read:
    """Read Kaldi's text form: each arc becomes a chain of arcs, one a label."""
    lattice, words = kaldifst.Lattice(), ["<eps>"]
    states: dict[str, int] = defaultdict(lambda: lattice.add_state())

    def chain(source: int, word: int, weight: str, target: int | None = None) -> int:
        graph_cost, acoustic_cost, labels = weight.split(",")
        costs = kaldifst.LatticeWeight(float(graph_cost), float(acoustic_cost))
        for label in [int(item) for item in labels.split("_") if item] or [0]:
            reached = lattice.add_state()
            arc = kaldifst.LatticeArc(label, word, costs, reached)
            lattice.add_arc(source, arc)
            source, word, costs = reached, 0, kaldifst.LatticeWeight.one
        if target is not None:
            lattice.add_arc(source, kaldifst.LatticeArc(0, 0, kaldifst.LatticeWeight.one, target))
        return source

    for number, line in enumerate(text.splitlines()):
        columns = line.split("\t")
        source = states[columns[0]]
        if not number:
            lattice.start = source
        if len(columns) == 2:
            end = chain(source, 0, columns[1])
            lattice.set_final(end, kaldifst.LatticeWeight.one)
        else:
            assert int(columns[1]) > int(columns[0])
            if columns[2] not in words:
                words.append(columns[2])
            chain(source, words.index(columns[2]), columns[3], states[columns[1]])
    return Read(lattice, words)


def best_path(found: Read) -> tuple[list[int], list[str], float, float]:
    """Labels, words, graph cost and acoustic cost of the best path, by kaldifst."""
    path = kaldifst.shortest_path(found.lattice)
    _, labels, words, weight = kaldifst.get_linear_symbol_sequence(path)
    texts = [found.words[word] for word in words if word]
    return [label for label in labels if label], texts, weight.value1, weight.value2
