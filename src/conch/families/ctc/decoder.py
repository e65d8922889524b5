"""The `ctc_decoder` and `ctc_streaming_decoder` components: CTC log probabilities to n-best texts,
or scores of given texts."""

import functools
import json
import lzma
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conch.cache import cached, digest_of
from conch.component import FloatArray, Outputs, Row, bytes_array
from conch.decoding.beam import BeamSearch
from conch.decoding.forward import text_scores
from conch.decoding.fusion import load_fused_language_model
from conch.decoding.graph.fst_arrays import open_fst, write_fst
from conch.decoding.graph.search import DecodingGraph, WfstConfig
from conch.decoding.hotwords.placing import HotwordFinder
from conch.decoding.hotwords.spotting import HotwordTrie, hotword_trie
from conch.decoding.hypothesis import CtcHypothesis
from conch.decoding.rows import (
    checked_frames,
    decoder_of,
    has_lattice,
    hotwords,
    is_greedy,
    nbest_count,
    outputs_of,
    search_options,
)
from conch.decoding.units import units_from_dict
from conch.decoding.utterance_search import (
    BeamUtterance,
    GraphUtterance,
    GreedySearch,
    UtteranceSearch,
)
from conch.decoding.vocab import OutputUnits, vocab_of
from conch.families.ctc import WEIGHTS
from conch.families.ctc.vocabulary import read_vocabulary
from conch.language import language_model_words
from conch.wire.errors import ConfigError, InvalidRequestError, OptionError
from conch.wire.hotwords import Hotword, as_ctc_writes

PACKED = WEIGHTS / "ctc-en.fst.xz"
_VERSION = 2
"""Version of the unpacked file: it changes with the format of `write_fst`."""
_HOTWORD_LISTS = 32
"""Lists whose tries are kept for the next stream with the same; the longest has 0.5 MB."""


def unpacked_graph(packed: Path = PACKED) -> Path:
    """Return the graph as a file that can be mapped; the first process that asks unpacks it."""
    if not packed.is_file():
        raise ConfigError(f"the decoding graph {packed} does not exist: make one by `conch graph`")

    def unpack(path: Path) -> None:
        plain = path.with_name("plain.fst")
        with lzma.open(packed) as source, plain.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
        # The package has the symbols in front: states and arcs behind them cannot be mapped.
        graph = open_fst(plain)
        write_fst(path, graph.arrays(), symbols=graph.symbols)
        plain.unlink()

    name = f"ctc-en-{digest_of(packed)}-{_VERSION}.fst"
    return cached(name, "the unpacked decoding graph", unpack)


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcDecoderConfig:
    model: str = ""
    language: str = ""
    language_model: str = ""
    oov_log_prob: float = -30.0
    graph: str = ""
    graph_acoustic_scale: float = WfstConfig().acoustic_scale
    graph_blank_penalty: float = WfstConfig().blank_penalty
    graph_beam: float = WfstConfig().beam
    graph_max_active: int = WfstConfig().max_active


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcStreamingDecoderConfig(CtcDecoderConfig):
    stream_ttl_s: float = 90.0


class CtcDecoder:
    def __init__(self, config: CtcDecoderConfig, vocabulary: OutputUnits | None = None) -> None:
        vocabulary = vocabulary or read_vocabulary(config.model)
        self._vocab = vocab_of(vocabulary)
        self._units = units_from_dict(json.loads(vocabulary.units))
        self._language_model = None
        nothing = {"none", ""} if vocabulary.symbols else {"none"}
        if config.language_model not in nothing:
            self._language_model = load_fused_language_model(
                config.language_model, config.oov_log_prob, self._vocab.texts
            )
        self._graph = None
        if config.graph not in nothing:
            path = Path(config.graph) if config.graph else unpacked_graph()
            self._graph = DecodingGraph(path, self._vocab.texts)
        self._graph_config = WfstConfig(
            acoustic_scale=config.graph_acoustic_scale,
            blank_penalty=config.graph_blank_penalty,
            beam=config.graph_beam,
            max_active=config.graph_max_active,
        )
        self.tries = functools.lru_cache(_HOTWORD_LISTS)(self._new_trie)
        self._frame_s = vocabulary.frame_s
        self._is_exported = bool(vocabulary.symbols)
        self._language = config.language or ("" if self._is_exported else "en")
        self._write = self._units.cased if self._is_exported else as_ctc_writes

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs | Exception]:
        answers: list[Outputs | Exception] = []
        for row in rows:
            try:
                answers.append(self.answer(row))
            except Exception as error:
                answers.append(error)
        return answers

    def answer(self, row: Row, /) -> Outputs:
        """Answer a row with `log_probs` and `log_probs_lens`; one with `texts` is scored."""
        log_probs = self.checked_frames(row)
        if "texts" in row.inputs:
            self._check_language(row.parameters)
            texts = row.texts("texts")
            if self._writes_none(texts):
                raise OptionError(
                    "option 'ctc_rescore' takes texts in letters of the CTC model, whose units "
                    f"write nothing of {max(texts, key=len)!r:.80}"
                )
            scores = text_scores(log_probs, texts, self._units)
            return {"text_scores": scores.astype(np.float32)}
        search = self.new_search(row.parameters)
        search.advance(log_probs)
        outputs = self.outputs(search.nbest(nbest_count(row.parameters), is_final=True))
        if isinstance(search, GraphUtterance) and search.has_lattice:
            return {**outputs, "lattice": bytes_array([search.lattice_text()])}
        return outputs

    def _writes_none(self, texts: Sequence[str]) -> bool:
        """Return whether an export has units for none of the words, but for bytes of them."""
        words = [word for text in texts for word in language_model_words(text)]
        return self._is_exported and bool(words) and not any(map(self._units.encode, words))

    def new_search(self, parameters: Mapping[str, Any]) -> UtteranceSearch:
        nbest_count(parameters)
        self._check_language(parameters)
        asks_lattice = has_lattice(parameters)
        options = search_options(parameters)
        if is_greedy(parameters):
            return GreedySearch(self._vocab)
        finder = self._new_finder(parameters)
        # The first of two passes takes what there is.
        is_free = self._graph is None and parameters.get("skip_foreign") is True
        if is_free or decoder_of(parameters) == "ctc":
            beam = BeamSearch(self._vocab, options, self._language_model)
            return BeamUtterance(beam, finder)
        if self._graph is None:
            raise OptionError(
                "option 'decoder' cannot be wfst here: no graph is loaded; conch graph makes one "
                "for your model, and the parameter 'graph' names it"
            )
        return GraphUtterance(self._graph, self._graph_config, finder, has_lattice=asks_lattice)

    def _new_finder(self, parameters: Mapping[str, Any]) -> HotwordFinder | None:
        words = hotwords(parameters, self._write)
        if not words:
            return None
        trie = self.tries(words, parameters.get("skip_foreign") is True)
        return HotwordFinder(trie, self._graph_config.blank_penalty) if trie.phrases else None

    def _new_trie(self, words: tuple[Hotword, ...], skips_foreign: bool) -> HotwordTrie:
        vocab, encode = self._vocab.texts, self._units.encode
        return hotword_trie(words, vocab, encode, skips_foreign=skips_foreign)

    def _check_language(self, parameters: Mapping[str, Any]) -> None:
        language = parameters.get("language", "auto")
        if self._language and language not in ("auto", self._language):
            raise OptionError(
                f"option 'language' takes auto or {self._language} with this CTC model, which "
                f"decoder ctc and wfst, ctc_rescore and accuracy=best need; sent: {language!r:.40}"
            )

    def checked_frames(self, row: Row) -> FloatArray:
        """Return a row's frames, float32 `[T, vocab]`."""
        log_probs = checked_frames(row, "log_probs", len(self._vocab.texts), self._frame_s)
        if len(log_probs) and np.isneginf(log_probs.max(1)).any():
            raise InvalidRequestError("log_probs holds a frame in which no unit is possible")
        return log_probs

    def advance(
        self, searches: Sequence[UtteranceSearch], frames: Sequence[FloatArray]
    ) -> list[Exception | None]:
        return [_error(search, item) for search, item in zip(searches, frames, strict=True)]

    def outputs(self, hypotheses: Sequence[CtcHypothesis]) -> Outputs:
        return outputs_of(hypotheses, self._frame_s)


def _error(search: UtteranceSearch, frames: FloatArray) -> Exception | None:
    try:
        search.advance(frames)
    except Exception as error:
        return error
    return None
