"""The `paraformer` component: segments to texts."""

import logging
import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

from conch.component import (
    SAMPLE_RATE,
    FloatArray,
    Outputs,
    Row,
    RowByRow,
    bytes_array,
    log_softmax,
)
from conch.component.onnx import open_network
from conch.families.attention.tensors import words_outputs
from conch.families.funasr import PARAFORMER
from conch.families.funasr.folder import EMBEDDER, read_paraformer
from conch.families.funasr.network import LowRateNetwork, opened_folder
from conch.families.search.graphs import DecoderConfig
from conch.wire.errors import OptionError
from conch.wire.hotwords import DEFAULT_HOTWORD_WEIGHT, hotwords_of
from conch.wire.joining import joined_text
from conch.wire.languages import check_language
from conch.wire.limits import MAX_SEGMENT_S
from conch.wire.result import Word

logger = logging.getLogger(__name__)

_SPACE, _GOES_ON = "▁", "@@"
END = "</s>"
_HOTWORD_LISTS = 32
"""Lists that are kept as the network has read them."""
_LONGEST_HOTWORD = 10
"""Units of a phrase, as FunASR pads them."""
SILENT = {"<blank>", "<blk>", "<s>", END, "<unk>"}
"""Units that write no text."""
_PEAK = 1 - 1e-4
"""Least value of a frame that holds a unit."""
_PEAK_S = 0.02
"""Seconds from one peak to the next: three in each feature."""
_LONGEST_S = 0.6
"""A unit whose next one comes later has ended before, as in FunASR."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit that was found, with its times in seconds."""

    symbol: str
    start: float
    end: float
    log_prob: float


def has_spaces(tokens: Iterable[str]) -> bool:
    """Return whether the symbols of a model say where words begin."""
    return any(token.startswith(_SPACE) for token in tokens)


def words_of_units(units: Sequence[Unit], *, has_spaces: bool) -> list[Word]:
    """Return the words of a text.

    Letters of Chinese are words. Any other unit continues the word before if that word ends with
    `@@`, or, in a model with `has_spaces`, if the unit does not begin with `▁`.
    """
    groups: list[list[Unit]] = []
    goes_on = False
    for unit in units:
        symbol = unit.symbol
        is_within = not symbol.startswith(_SPACE) if has_spaces else goes_on and symbol.isascii()
        goes_on = symbol.endswith(_GOES_ON)
        piece = replace(unit, symbol=symbol.removeprefix(_SPACE).removesuffix(_GOES_ON))
        if is_within and groups:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return [_word(pieces) for pieces in groups if any(piece.symbol for piece in pieces)]


def _word(pieces: Iterable[Unit]) -> Word:
    first, *others = pieces
    last = others[-1] if others else first
    log_prob = sum(piece.log_prob for piece in (first, *others)) / (1 + len(others))
    text = "".join(piece.symbol for piece in (first, *others))
    return Word(text, first.start, last.end, min(1.0, math.exp(log_prob)))


class UnitWriter(RowByRow):
    def __init__(self, language: str, tokens: Sequence[str]) -> None:
        self._language, self._tokens = language, tokens
        self._has_spaces = has_spaces(tokens)

    def answer(self, row: Row, /) -> Outputs:
        check_language(row.parameters, self._language, "Paraformer")
        phrases = hotwords_of(str(row.parameters.get("hotwords", "")), DEFAULT_HOTWORD_WEIGHT)
        units = self.units(row.segment(MAX_SEGMENT_S), [item.phrase for item in phrases])
        words = words_of_units(units, has_spaces=self._has_spaces)
        return {
            "hypotheses": bytes_array([joined_text(word.text for word in words)]),
            "scores": np.array([sum(unit.log_prob for unit in units)], np.float32),
            **words_outputs(words),
        }

    @abstractmethod
    def units(self, waveform: FloatArray, hotwords: Sequence[str] = (), /) -> list[Unit]:
        """Return the units of float32 `[samples]`, 16 kHz; raise an OptionError for `hotwords`."""


class ParaformerComponent(UnitWriter):
    """Finds all units of a segment at once."""

    def __init__(self, config: DecoderConfig) -> None:
        model = opened_folder(config, PARAFORMER, read_paraformer)
        super().__init__(config.language, model.tokens)
        self._num_ends = model.num_ends
        self._network = LowRateNetwork(model, config.threads)
        self._embedder = None
        if model.embedder:
            what = "the network of hotwords"
            self._embedder = open_network(what, model.embedder, config.threads)
        self._embedded = lru_cache(_HOTWORD_LISTS)(self._embed)

    def units(self, waveform: FloatArray, hotwords: Sequence[str] = (), /) -> list[Unit]:
        if hotwords and not self._embedder:
            raise OptionError(
                f"option 'hotwords' does not go with this Paraformer, which has no {EMBEDDER}.onnx"
            )
        known = [self._embedded(tuple(hotwords))] if self._embedder else []
        try:
            outputs = self._network.run(waveform, *known)
        except (Fail, InvalidArgument, RuntimeException) as error:
            # Exported networks fail where they find no unit, in silence or noise. A lack of memory
            # is of the same classes.
            if "alloc" in str(error):
                raise
            logger.warning("%d samples give no text: %s", len(waveform), error)
            outputs = ()
        if not outputs:
            return []
        logits, count = outputs[0][0], int(outputs[1].ravel()[0])
        logits = logits[: max(0, count - self._num_ends)]
        symbols = [self._tokens[unit] for unit in logits.argmax(axis=1)]
        symbols = symbols[: symbols.index(END)] if END in symbols else symbols
        log_probs = log_softmax(logits[: len(symbols)]).max(axis=1) if symbols else ()
        peaks = outputs[3][0] if len(outputs) > 3 else np.zeros(0, np.float32)
        times = times_of(len(symbols), peaks, len(waveform) / SAMPLE_RATE)
        return [
            Unit(symbol, start, end, float(log_prob))
            for symbol, (start, end), log_prob in zip(symbols, times, log_probs, strict=True)
            if symbol not in SILENT
        ]

    def _embed(self, hotwords: tuple[str, ...]) -> FloatArray:
        """Return the embeddings of phrases, and of no phrase last, `[phrases + 1, size]`."""
        assert self._embedder
        numbers = {token: number for number, token in enumerate(self._tokens)}
        unknown = len(self._tokens) - 1
        rows = []
        for phrase in hotwords:
            parts = [[word] if word in numbers else [*word] for word in phrase.lower().split()]
            rows.append([numbers.get(part, unknown) for word in parts for part in word])
            if len(rows[-1]) > _LONGEST_HOTWORD:
                raise OptionError(
                    f"option 'hotwords' takes phrases of at most {_LONGEST_HOTWORD} letters with "
                    f"this Paraformer; sent: {phrase!r:.80}"
                )
        rows.append([numbers.get("<s>", 1)])
        padded = [row + [0] * (_LONGEST_HOTWORD - len(row)) for row in rows]
        last = np.array([len(row) - 1 for row in rows], np.int32)
        names = (item.name for item in self._embedder.get_inputs())
        feed = dict(zip(names, (np.array(padded, np.int32), last), strict=False))
        (states,) = self._embedder.run(None, feed)
        return np.asarray(states[last, np.arange(len(rows))])


def times_of(count: int, peaks: FloatArray, seconds: float) -> list[tuple[float, float]]:
    """Return start and end of each of `count` units in seconds.

    A unit begins with its peak, and ends with the next one, at most 0.6 s later. Without a peak for
    each, and one behind the last, they share the audio evenly. `peaks` are float32 `[frames of 20
    ms]`: 1 where a unit begins, below elsewhere.
    """
    starts = (np.flatnonzero(peaks > _PEAK) * _PEAK_S).tolist()
    if len(starts) != count + 1:
        edges = np.linspace(0.0, seconds, count + 1).tolist()
        return [*pairwise(edges)]
    return [
        (min(at, seconds), min(following, at + _LONGEST_S, seconds))
        for at, following in pairwise(starts)
    ]
