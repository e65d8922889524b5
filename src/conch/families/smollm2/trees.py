"""Score sequences of tokens as trees: what several begin with is read once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conch.component.arrays import FloatArray
from conch.component.onnx import open_network, session_options


class Scored(NamedTuple):
    log_probs: list[float]
    """Log probability of each token but the first, after those before it."""


class TreeScorer:
    """Runs `scoring_graph` in the place of a `ctranslate2.Generator`."""

    def __init__(self, path: Path, token_to_id: Callable[[str], int | None], threads: int) -> None:
        options = session_options(threads)
        self._session = open_network("the language model", path, options)
        self._token_to_id = token_to_id

    def score_batch(
        self, sequences: Sequence[Sequence[str]], *, max_batch_size: int, **_: Any
    ) -> list[Scored]:
        """Return the log probabilities of sequences, of which trees of so many tokens are made."""
        found: list[Scored] = []
        tree: dict[tuple[str, ...], int] = {}
        waiting: list[list[tuple[str, ...]]] = []
        for sequence in sequences:
            beginnings = [tuple(sequence[: end + 1]) for end in range(len(sequence))]
            new = [item for item in beginnings if item not in tree]
            if len(tree) + len(new) > max_batch_size:
                found += self._scored(tree, waiting)
                tree, waiting, new = {}, [], beginnings
            waiting.append(beginnings)
            tree |= zip(new, range(len(tree), len(tree) + len(new)), strict=True)
        return found + self._scored(tree, waiting)

    def _scored(
        self, tree: dict[tuple[str, ...], int], sequences: list[list[tuple[str, ...]]]
    ) -> list[Scored]:
        """Return what is known of sequences by their beginnings, the places of which `tree` has."""
        if not sequences:
            return []
        tokens = np.array([self._token_to_id(item[-1]) for item in tree])
        positions = np.array([[len(item) - 1 for item in tree]])
        followers = {item: tree[item[:-1]] for item in tree if len(item) > 1}
        mask = np.full((len(tree), len(tree)), -np.inf, np.float32)
        for item, place in tree.items():
            if item in followers:
                mask[place] = mask[followers[item]]
            mask[place, place] = 0
        sources, rows = np.unique([*followers.values()], return_inverse=True)
        targets = np.stack([rows, tokens[[tree[item] for item in followers]]], axis=1)
        feed = {
            "tokens": tokens,
            "positions": positions,
            "mask": mask,
            "sources": sources,
            "targets": targets,
        }
        log_probs: FloatArray
        (log_probs,) = self._session.run(None, feed)
        known = dict(zip(followers, log_probs.tolist(), strict=True))
        return [Scored([known[item] for item in beginnings[1:]]) for beginnings in sequences]
