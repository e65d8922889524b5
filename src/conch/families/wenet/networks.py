"""WeNet's networks: the encoder components, and the attention decoders that score texts."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from conch.component import SAMPLE_RATE, Array, FloatArray, IntArray
from conch.component.onnx import open_network
from conch.decoding.vocab import OutputUnits
from conch.families.ctc.encoder import speech_outputs
from conch.families.ctc.vocabulary import exported_vocabulary
from conch.families.search.encoders import ExportedEncoder, LiveEncoder, RecordingEncoder
from conch.families.search.graphs import (
    TYPES,
    EncoderGraph,
    FolderConfig,
    LiveConfig,
    RecordingsConfig,
    folder_of,
)
from conch.families.wenet import FRAMES
from conch.families.wenet.folder import REVERSED, WenetFolder, read_wenet
from conch.wire.errors import ConfigError

_HIDDEN = ("encoder_out", "chunk_out", "output")
"""Names of an encoder's output: for recordings, for live audio, and for CPUs."""
_LEAST = 1e-10
"""Probability of all units together that an encoder leaves out."""


def opened_folder(config: FolderConfig) -> WenetFolder:
    return folder_of(config, "wenet", "is no model of WeNet", read_wenet)


def vocabulary_of(model: WenetFolder) -> OutputUnits:
    return exported_vocabulary(model.tokens, 10 * model.encoder.subsampling)


class WenetGraph(EncoderGraph):
    """Runs an encoder: a frame has the log probabilities of the units, then its own output."""

    def __init__(self, model: WenetFolder, threads: int) -> None:
        super().__init__(model.encoder, "the encoder of a model of WeNet", threads)
        self._ctc = None
        if model.ctc:
            self._ctc = open_network("the CTC of a model of WeNet", model.ctc, self._threads)
        names = [item.name for item in model.encoder.header.outputs]
        (self._hidden,) = [name for name in _HIDDEN if name in names]
        of_units = ["ctc_log_probs"] if "ctc_log_probs" in names else ["log_probs", "log_probs_idx"]
        self._of_units = of_units if self._ctc is None else []
        more = self._outputs[1:] if self.encoder.is_live else ["encoder_out_lens"]
        self._wanted = [self._hidden, *self._of_units, *more]
        self._num_units = len(model.tokens)

    def run(self, feed: Mapping[str, Array]) -> list[Array]:
        hidden, *others = self._session.run(self._wanted, feed)
        of_units, more = others[: len(self._of_units)], others[len(self._of_units) :]
        if self._ctc is not None:
            of_units = self._ctc.run(None, {self._ctc.get_inputs()[0].name: hidden})
        log_probs = of_units[0] if len(of_units) < 2 else self._filled(*of_units)
        return [np.concatenate([log_probs, hidden], axis=2), *more]

    def _filled(self, log_probs: FloatArray, units: Array) -> FloatArray:
        """Return log probabilities of all units from the best ones; the others share the rest."""
        num_left = max(1, self._num_units - log_probs.shape[2])
        rest = np.maximum(1 - np.exp(log_probs).sum(axis=2, keepdims=True), _LEAST) / num_left
        filled: FloatArray = np.repeat(np.log(rest), self._num_units, axis=2)
        np.put_along_axis(filled, units, log_probs, axis=2)
        return filled


class AttentionDecoders:
    """Scores hypotheses of the search again, read from both ends where the model does."""

    def __init__(self, model: WenetFolder, threads: int) -> None:
        self._model = model
        content = None
        if model.ctc_weight is None:
            content, self._scores = _with_scores(model.decoder)
        what = "the decoder of a model of WeNet"
        self._session = open_network(what, model.decoder, threads, content=content)
        self._types = {item.name: item.element_type for item in model.decoder_header.inputs}

    def scores(
        self, hidden: FloatArray, hypotheses: Sequence[Sequence[int]], ctc: Sequence[float]
    ) -> list[float]:
        """Return scores by attention, plus weighted `ctc`; `hidden` is float32 `[frames, size]`."""
        most, totals = self._model.num_hypotheses, list[float]()
        score = self._sums if self._model.ctc_weight is None else self._sums_of_units
        for first in range(0, len(hypotheses), most):
            part = slice(first, first + most)
            totals += score(hidden[None], hypotheses[part], ctc[part])
        return totals

    def _sums(
        self, hidden: FloatArray, hypotheses: Sequence[Sequence[int]], ctc: Sequence[float]
    ) -> list[float]:
        """Score by the export for GPUs, which takes a fixed number of hypotheses."""
        free = self._model.num_hypotheses - len(ctc)
        rows = [*hypotheses, *([()] * free)]
        feed: dict[str, Array] = {
            "encoder_out": hidden,
            "encoder_out_lens": np.array([hidden.shape[1]]),
            "hyps_pad_sos_eos": self._padded(rows)[None],
            "hyps_lens_sos": np.array([[len(units) + 1 for units in rows]]),
            REVERSED: self._padded([units[::-1] for units in rows])[None],
            "ctc_score": np.array([[*ctc, *([0.0] * free)]]),
        }
        sums: list[float] = self._run([self._scores], feed)[0].reshape(-1).tolist()
        return sums[: len(ctc)]

    def _sums_of_units(
        self, hidden: FloatArray, hypotheses: Sequence[Sequence[int]], ctc: Sequence[float]
    ) -> list[float]:
        """Score by the export for CPUs, which gives log probabilities."""
        weight, share = self._model.ctc_weight or 0.0, self._model.reverse_weight
        feed: dict[str, Array] = {
            "encoder_out": hidden,
            "hyps": self._padded(hypotheses)[:, :-1],
            "hyps_lens": np.array([len(units) + 1 for units in hypotheses]),
        }
        forward, *backward = self._run(["score", "r_score"] if share else ["score"], feed)
        sums = [weight * score for score in ctc]
        for row, units in enumerate(hypotheses):
            sums[row] += (1 - share) * self._sum(forward[row], units)
            if share:
                sums[row] += share * self._sum(backward[0][row], units[::-1])
        return sums

    def _sum(self, log_probs: FloatArray, units: Sequence[int]) -> float:
        return float(log_probs[np.arange(len(units) + 1), [*units, self._model.edges[1]]].sum())

    def _padded(self, hypotheses: Sequence[Sequence[int]]) -> IntArray:
        """Return hypotheses with what stands in front and behind, int64 `[N, units + 2]`."""
        first, last = self._model.edges
        padded = np.full((len(hypotheses), max(map(len, hypotheses)) + 2), last)
        for row, units in zip(padded, hypotheses, strict=True):
            row[: len(units) + 1] = first, *units
        return padded

    def _run(self, names: Sequence[str], feed: Mapping[str, Array]) -> list[FloatArray]:
        """Run the network with those of its inputs that it has, in their types."""
        typed = {
            name: feed[name].astype(TYPES.get(element_type, np.float32), copy=False)
            for name, element_type in self._types.items()
        }
        outputs: list[FloatArray] = self._session.run(names, typed)
        return outputs


def _with_scores(path: Path) -> tuple[bytes, str]:
    """Return a network that also gives the scores behind `best_index`, and their name."""
    model = onnx.load(path, load_external_data=False)
    makers = {name: node for node in model.graph.node for name in node.output}
    node = makers.get("best_index")
    while node is not None and node.op_type in ("Cast", "Identity", "Squeeze"):
        node = makers.get(node.input[0])
    if node is None or node.op_type != "ArgMax":
        raise ConfigError(f"{path} does not find best_index by ArgMax, as an export of WeNet does")
    model.graph.output.append(onnx.ValueInfoProto(name=node.input[0]))
    return model.SerializeToString(), node.input[0]


class WenetEncoder(RecordingEncoder):
    def __init__(self, config: RecordingsConfig) -> None:
        graph = WenetGraph(opened_folder(config), config.threads)
        super().__init__(ExportedEncoder(graph), FRAMES, config)


class WenetStreamingEncoder(LiveEncoder):
    """Turns samples of streams into frames; refuses all for an encoder of recordings."""

    def __init__(self, config: LiveConfig) -> None:
        model = opened_folder(config)
        self._num_units, self._silent = len(model.tokens), vocabulary_of(model).silent
        self._frame = model.encoder.subsampling * SAMPLE_RATE // 100
        graph = WenetGraph(model, config.threads) if model.hears_live else None
        super().__init__(graph, FRAMES, "wenet", config.model, config.stream_ttl_s)

    def outputs(self, frames: FloatArray) -> dict[str, Array]:
        if not len(frames):
            frames = np.zeros((0, self._num_units), np.float32)
        speech = speech_outputs(frames[:, : self._num_units], self._silent, self._frame)
        return super().outputs(frames) | speech
