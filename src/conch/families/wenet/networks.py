"""The networks of a folder of WeNet on ONNX Runtime."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from conch.component.arrays import Array, FloatArray, IntArray
from conch.component.onnx import open_network, session_options
from conch.decoding.vocab import Vocabulary
from conch.families.ctc.vocabulary import exported_vocabulary
from conch.families.search.graphs import TYPES, EncoderGraph, FolderConfig, folder_of
from conch.families.wenet.folder import REVERSED, WenetFolder, read_wenet
from conch.wire.errors import ConfigError

_HIDDEN = ("encoder_out", "chunk_out", "output")
"""What an encoder calls its output: for recordings, for live audio, and for CPUs."""
_LEAST = 1e-10
"""Probability of all units together that an encoder leaves out."""


def opened_folder(config: FolderConfig) -> WenetFolder:
    return folder_of(config, "wenet", "is no model of WeNet", read_wenet)


def vocabulary_of(found: WenetFolder) -> Vocabulary:
    return exported_vocabulary(found.tokens, 10 * found.encoder.subsampling)


class WenetGraph(EncoderGraph):
    """Runs an encoder: a frame has the log probabilities of the units, then its own output."""

    def __init__(self, found: WenetFolder, threads: int) -> None:
        super().__init__(found.encoder, "the encoder of a model of WeNet", threads)
        self._ctc = None
        if found.ctc:
            self._ctc = open_network("the CTC of a model of WeNet", found.ctc, self._options)
        names = [item.name for item in found.encoder.header.outputs]
        (self._hidden,) = [name for name in _HIDDEN if name in names]
        of_units = ["ctc_log_probs"] if "ctc_log_probs" in names else ["log_probs", "log_probs_idx"]
        self._of_units = of_units if self._ctc is None else []
        more = self._outputs[1:] if self.encoder.is_live else ["encoder_out_lens"]
        self._wanted = [self._hidden, *self._of_units, *more]
        self._num_units = len(found.tokens)

    def run(self, feed: Mapping[str, Array]) -> list[Array]:
        hidden, *found = self._session.run(self._wanted, feed)
        of_units, more = found[: len(self._of_units)], found[len(self._of_units) :]
        if self._ctc is not None:
            of_units = self._ctc.run(None, {self._ctc.get_inputs()[0].name: hidden})
        log_probs = of_units[0] if len(of_units) < 2 else self._filled(*of_units)
        return [np.concatenate([log_probs, hidden], axis=2), *more]

    def _filled(self, log_probs: FloatArray, units: Array) -> FloatArray:
        """Return log probabilities of all units from the best ones; the others share the rest."""
        num_left = max(1, self._num_units - log_probs.shape[2])
        rest = np.maximum(1 - np.exp(log_probs).sum(axis=2, keepdims=True), _LEAST) / num_left
        found: FloatArray = np.repeat(np.log(rest), self._num_units, axis=2)
        np.put_along_axis(found, units, log_probs, axis=2)
        return found


class AttentionDecoders:
    """Scores hypotheses of the search again, read from both ends where the model does."""

    def __init__(self, found: WenetFolder, threads: int) -> None:
        what, options = "the decoder of a model of WeNet", session_options(threads)
        self._found = found
        if found.ctc_weight is None:
            content, self._scores = _with_scores(found.decoder)
            self._session = open_network(what, found.decoder, options, content=content)
        else:
            self._session = open_network(what, found.decoder, options)
        self._kinds = {item.name: item.kind for item in found.decoder_header.inputs}

    def scores(
        self, hidden: FloatArray, hypotheses: Sequence[Sequence[int]], ctc: Sequence[float]
    ) -> list[float]:
        """Return scores by attention, plus weighted `ctc`; `hidden` is float32 `[frames, size]`."""
        most, found = self._found.num_hypotheses, list[float]()
        score = self._sums if self._found.ctc_weight is None else self._sums_of_units
        for first in range(0, len(hypotheses), most):
            part = slice(first, first + most)
            found += score(hidden[None], hypotheses[part], ctc[part])
        return found

    def _sums(
        self, hidden: FloatArray, hypotheses: Sequence[Sequence[int]], ctc: Sequence[float]
    ) -> list[float]:
        """Score by the export for GPUs, which takes a fixed number of hypotheses."""
        free = self._found.num_hypotheses - len(ctc)
        rows = [*hypotheses, *([()] * free)]
        feed: dict[str, Array] = {
            "encoder_out": hidden,
            "encoder_out_lens": np.array([hidden.shape[1]]),
            "hyps_pad_sos_eos": self._padded(rows)[None],
            "hyps_lens_sos": np.array([[len(units) + 1 for units in rows]]),
            REVERSED: self._padded([units[::-1] for units in rows])[None],
            "ctc_score": np.array([[*ctc, *([0.0] * free)]]),
        }
        found: list[float] = self._run([self._scores], feed)[0].reshape(-1).tolist()
        return found[: len(ctc)]

    def _sums_of_units(
        self, hidden: FloatArray, hypotheses: Sequence[Sequence[int]], ctc: Sequence[float]
    ) -> list[float]:
        """Score by the export for CPUs, which gives log probabilities."""
        weight, share = self._found.ctc_weight or 0.0, self._found.reverse_weight
        feed: dict[str, Array] = {
            "encoder_out": hidden,
            "hyps": self._padded(hypotheses)[:, :-1],
            "hyps_lens": np.array([len(units) + 1 for units in hypotheses]),
        }
        forward, *backward = self._run(["score", "r_score"] if share else ["score"], feed)
        found = [weight * score for score in ctc]
        for row, units in enumerate(hypotheses):
            found[row] += (1 - share) * self._sum(forward[row], units)
            if share:
                found[row] += share * self._sum(backward[0][row], units[::-1])
        return found

    def _sum(self, log_probs: FloatArray, units: Sequence[int]) -> float:
        return float(log_probs[np.arange(len(units) + 1), [*units, self._found.edges[1]]].sum())

    def _padded(self, hypotheses: Sequence[Sequence[int]]) -> IntArray:
        """Return hypotheses with what stands in front and behind, int64 `[N, units + 2]`."""
        first, last = self._found.edges
        found = np.full((len(hypotheses), max(map(len, hypotheses)) + 2), last)
        for row, units in zip(found, hypotheses, strict=True):
            row[: len(units) + 1] = first, *units
        return found

    def _run(self, names: Sequence[str], feed: Mapping[str, Array]) -> list[FloatArray]:
        """Run the network with those of its inputs that it has, in their types."""
        typed = {
            name: feed[name].astype(TYPES.get(kind, np.float32), copy=False)
            for name, kind in self._kinds.items()
        }
        found: list[FloatArray] = self._session.run(names, typed)
        return found


def _with_scores(path: Path) -> tuple[bytes, str]:
    """Return a network that also gives the scores behind `best_index`, and their name."""
    model = onnx.load(path)
    makers = {name: node for node in model.graph.node for name in node.output}
    node = makers.get("best_index")
    while node is not None and node.op_type in ("Cast", "Identity", "Squeeze"):
        node = makers.get(node.input[0])
    if node is None or node.op_type != "ArgMax":
        raise ConfigError(f"{path} does not find best_index by ArgMax, as an export of WeNet does")
    model.graph.output.append(onnx.ValueInfoProto(name=node.input[0]))
    return model.SerializeToString(), node.input[0]
