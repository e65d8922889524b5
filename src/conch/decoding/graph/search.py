"""Search in a decoding graph, by kaldi-decoder, as the log probabilities come in."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import kaldi_decoder
import kaldifst
import numpy as np

from conch.component import DoubleArray, FloatArray, IntArray
from conch.decoding.graph import FORMAT
from conch.decoding.graph.compact_lattice import (
    MAX_LABELS,
    MIN_BEAM,
    Weight,
    compact_lattice,
    linear_lattice,
)
from conch.decoding.graph.fst_arrays import lattice_path, map_graphs, open_fst
from conch.decoding.graph.lattice import LatticePath, WordLattice, path_costs, word_lattice
from conch.decoding.hypothesis import CtcHypothesis, PathUnit, spelled_words, unit_runs
from conch.decoding.units import BLANK, opens_words
from conch.wire.errors import ConfigError, InvalidRequestError

_IMPOSSIBLE = -1e4
"""In place of minus infinity, so that some path outlives a frame in which no unit is possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WfstConfig:
    """How much of the graph is searched. Costs are in nats of the n-gram model."""

    acoustic_scale: float = 1.0
    """Weight of the model's log probabilities; those of the n-grams count once."""
    blank_penalty: float = 1.0
    """Nats of the model taken off a blank's log probability. A path is one alignment of its text,
    and texts with more letters have more of them: without it the search writes too little."""
    beam: float = 14.0
    """Cost above a frame's best path up to which paths are followed."""
    max_active: int = 2000
    """States followed from a frame."""
    lattice_beam: float = 5.0
    """For n-best lists: cost above the best path up to which others are kept."""
    lattice_max_active: int = 1000
    """For n-best lists, `max_active`."""

    def __post_init__(self) -> None:
        for name in ("acoustic_scale", "beam", "lattice_beam"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"{name} takes a number above 0; is: {value}")
        if not math.isfinite(self.blank_penalty):
            raise ConfigError(f"blank_penalty takes a finite number; is: {self.blank_penalty}")
        for name in ("max_active", "lattice_max_active"):
            # kaldi-decoder keeps at least twenty of them, and ends the process if it may not.
            if getattr(self, name) <= 20:
                raise ConfigError(f"{name} takes 21 or more; is: {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class WfstHypothesis(CtcHypothesis):
    """A text of the graph; its scores are those of the best path alone, not summed over alignments.

    `score` is `am_score + (lm_score + word_bonus · number of words) / acoustic_scale`. `am_score`
    has each blank's log probability less the `blank_penalty`; `lm_score` has the sentence's end.
    """

    am_scores: DoubleArray = field(compare=False)
    """float64 `[T]`: `am_score` by frame."""
    graph_scores: DoubleArray = field(compare=False)
    """float64 `[T]`: what the graph adds to the score in each frame; empty if not asked for."""


class _Alignment(NamedTuple):
    units: IntArray
    """int64 `[T]`: the unit of each frame."""
    log_probs: FloatArray
    """float32 `[T]`: of each."""

    @property
    def score(self) -> float:
        return float(self.log_probs.sum(dtype=np.float64))


class DecodingGraph:
    """A graph mapped into memory, which streams, threads and processes share."""

    def __init__(self, path: Path, vocab: Sequence[str]) -> None:
        self.arrays = open_fst(path)
        if len(self.arrays.symbols) != 2:
            raise ConfigError(f"the graph {path} was not made by `conch graph`: it has no symbols")
        (described, inputs), (_, words) = self.arrays.symbols
        try:
            facts = json.loads(described)
            is_ours = isinstance(facts, dict) and facts.get("format") == FORMAT
        except ValueError:
            is_ours = False
        if not is_ours:
            raise ConfigError(f"the graph {path} was not made by this version's `conch graph`")
        units = tuple(inputs)[2:-1]
        if units != tuple(vocab[1:]):
            raise ConfigError(
                f"the graph {path} is for the vocabulary {list(units)[:40]}, not for the "
                f"model's {list(vocab[1:])[:40]}: make it again with `conch graph --model`"
            )
        self.vocab = tuple(vocab)
        self.words = words
        """Words by output label."""
        self.word_bonus = float(facts["word_bonus"])
        map_graphs()
        self.fst: Any = kaldifst.StdConstFst.read(str(path))
        if self.fst is None:
            raise ConfigError(f"the graph {path} cannot be read by kaldifst")


class WfstStream:
    """The search of one utterance. Not for several threads at once; the graph may be shared."""

    def __init__(
        self,
        graph: DecodingGraph,
        config: WfstConfig | None = None,
        *,
        has_graph_scores: bool = False,
    ) -> None:
        self._graph = graph  # kaldi-decoder keeps a bare pointer to it
        self._has_graph_scores = has_graph_scores
        self._config = config or WfstConfig()
        self._decoder = kaldi_decoder.FasterDecoder(
            graph.fst,
            kaldi_decoder.FasterDecoderOptions(
                beam=self._config.beam, max_active=self._config.max_active
            ),
        )
        self._decoder.init_decoding()
        self._frames: list[FloatArray] = []
        self._lattice: tuple[WordLattice, DoubleArray] | None = None
        """Paths near the best one, and the costs of the frames."""

    @property
    def num_frames(self) -> int:
        return sum(map(len, self._frames))

    def advance(self, log_probs: FloatArray) -> None:
        """Search `log_probs`, float32 `[T, vocab_size]` of the next frames; T may be 0."""
        if log_probs.shape[1:] != (len(self._graph.vocab),):
            # kaldi-decoder would read other memory.
            raise InvalidRequestError(f"log_probs is {list(log_probs.shape)}, not [T, vocab_size]")
        if len(log_probs):
            frames = log_probs.astype(np.float32)
            frames[:, BLANK] -= self._config.blank_penalty
            self._frames.append(frames)
            self._feed(self._scaled(frames))

    def best(self) -> WfstHypothesis:
        """Return the best hypothesis so far.

        Letters after the last word that is certain are the beginning of the next; while the stream
        goes on, `lm_score` holds a part of that word too.
        """
        if (path := self._best_path()) is None:
            nothing = np.zeros(self.num_frames)
            return WfstHypothesis("", (), 0.0, 0.0, 0.0, nothing, nothing)
        _, labels, words, weight = kaldifst.get_linear_symbol_sequence(path)
        costs = []
        if self._has_graph_scores:
            arcs = lattice_path(path)
            costs = path_costs(zip(arcs["ilabel"].tolist(), arcs["cost"].tolist(), strict=True))
        return self._hypothesis(self._alignment(labels), words, weight.value1, costs)

    def finish(self, nbest: int = 1, *, has_lattice: bool = False) -> tuple[WfstHypothesis, ...]:
        """End the utterance and return its hypotheses, best first, each of other words.

        More than one cost a second search, by a lattice, and so does `lattice_text`, which needs
        `has_lattice`. Nothing may follow.
        """
        ending = self._ending()
        self._feed(ending)
        if (nbest == 1 and not has_lattice) or not self._frames:
            return (self.best(),)
        scaled = np.concatenate([*map(self._scaled, self._frames), ending])
        costs = -scaled.astype(np.float64)
        lattice = word_lattice(
            self._graph.arrays,
            costs,
            beam=self._config.beam,
            max_active=self._config.lattice_max_active,
            lattice_beam=self._config.lattice_beam,
        )
        if lattice is None:
            return (self.best(),)
        self._lattice = lattice, costs
        return tuple(map(self._of_lattice, lattice.best_paths(nbest)))

    def lattice_text(self, max_labels: int = MAX_LABELS) -> str:
        """Return the lattice of a finished utterance in Kaldi's text form; see `CompactLattice`.

        Its costs are positive: `-am_score`, each blank's penalty included, and that of the graph.
        Its labels are units counted from 1, the blank, one a frame. Where it would be too large,
        it has fewer paths. It has the best path alone if no other was found.
        """
        scale = self._config.acoustic_scale
        compact = None
        if self._lattice is not None:
            lattice, costs = self._lattice
            beam = lattice.beam
            while compact is None and beam > MIN_BEAM:
                compact = compact_lattice(
                    lattice.paths, costs, self.num_frames, scale, beam, max_labels
                )
                beam /= 2
        if compact is not None:
            return compact.to_text(self._graph.words)
        if (path := self._best_path()) is None:
            return ""
        _, labels, words, weight = kaldifst.get_linear_symbol_sequence(path)
        alignment = self._alignment(labels)
        cost = weight.value1 - scale * alignment.score
        read = tuple((alignment.units + 1).tolist())
        best = Weight(cost, weight.value1, -alignment.score, read)
        return linear_lattice([word for word in words if word], best).to_text(self._graph.words)

    def _best_path(self) -> Any | None:
        has_path, path = self._decoder.get_best_path()
        return path if has_path and self.num_frames else None

    def _feed(self, scaled: FloatArray) -> None:
        offset = self._decoder.num_frames_decoded()
        self._decoder.advance_decoding(kaldi_decoder.DecodableCtc(scaled, offset))

    def _scaled(self, log_probs: FloatArray) -> FloatArray:
        # Not to be ended before the end at any cost: kaldi-decoder prefers a path that is ended.
        scaled = np.full((len(log_probs), log_probs.shape[1] + 1), -np.inf, np.float32)
        np.maximum(log_probs * self._config.acoustic_scale, _IMPOSSIBLE, out=scaled[:, :-1])
        return scaled

    def _ending(self) -> FloatArray:
        """Return two frames: the last word's space, if one is still to come, and the end."""
        vocab = self._graph.vocab
        frames = np.full((2, len(vocab) + 1), _IMPOSSIBLE, np.float32)
        frames[0, BLANK] = 0.0
        if not opens_words(vocab):
            frames[0, vocab.index(" ")] = 0.0
        frames[1, -1] = 0.0
        return frames

    def _of_lattice(self, path: LatticePath) -> WfstHypothesis:
        alignment = self._alignment(path.labels)
        scale = self._config.acoustic_scale
        costs: Sequence[float] = []
        if self._has_graph_scores:
            totals = path.frame_costs()
            acoustic = np.pad(alignment.log_probs, (0, len(totals) - len(alignment.log_probs)))
            costs = (totals + scale * acoustic).tolist()
        return self._hypothesis(alignment, path.words, path.cost + scale * alignment.score, costs)

    def _alignment(self, labels: Sequence[int]) -> _Alignment:
        log_probs = np.concatenate(self._frames)
        units = np.array([label for label in labels if label])[: len(log_probs)] - 1
        path = log_probs[np.arange(len(units)), units]
        return _Alignment(units, path.clip(_IMPOSSIBLE / self._config.acoustic_scale))

    def _hypothesis(
        self,
        alignment: _Alignment,
        words: Sequence[int],
        graph_cost: float,
        frame_costs: Sequence[float],
    ) -> WfstHypothesis:
        texts = [self._graph.words[word] for word in words if word]
        runs = unit_runs(alignment.units, alignment.log_probs)
        spelled = spelled_words(
            PathUnit(self._graph.vocab[unit], start, end, log_prob)
            for unit, start, end, log_prob in zip(*(item.tolist() for item in runs), strict=True)
        )
        # A word that is not complete is shown as it is spelled.
        shown = (*texts, *(word.text for word in spelled[len(texts) :]))
        aligned = tuple(
            replace(word, text=text) for word, text in zip(spelled, shown, strict=False)
        )
        frames = len(alignment.units)
        graph_scores = -np.array(frame_costs[:frames]) / self._config.acoustic_scale
        if len(graph_scores):
            graph_scores[-1] -= sum(frame_costs[frames:]) / self._config.acoustic_scale
        return WfstHypothesis(
            text=" ".join(word.text for word in aligned),
            words=aligned,
            score=alignment.score - graph_cost / self._config.acoustic_scale,
            am_score=alignment.score,
            lm_score=-graph_cost - self._graph.word_bonus * len(texts),
            am_scores=alignment.log_probs.astype(np.float64),
            graph_scores=graph_scores,
        )
