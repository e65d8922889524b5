"""The `paraformer` component: segments to texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from conch.catalogue.funasr import read_paraformer
from conch.component import Outputs, Row, bytes_array
from conch.component.arrays import FloatArray
from conch.component.waveform import SAMPLE_RATE
from conch.families.attention.tensors import words_outputs
from conch.families.funasr.declaration import PARAFORMER
from conch.families.funasr.network import (
    FunasrConfig,
    LowRateNetwork,
    log_softmax,
    opened_folder,
)
from conch.families.funasr.words import Unit, has_spaces, words_of_units
from conch.wire.errors import OptionError
from conch.wire.joining import joined_text
from conch.wire.limits import MAX_SEGMENT_S

END = "</s>"
SILENT = {"<blank>", "<blk>", "<s>", END, "<unk>"}
"""Units that write no text."""
_PEAK = 1 - 1e-4
"""From here on a frame has found a unit."""
_PEAK_S = 0.02
"""Seconds from one peak to the next: three in each feature."""
_LONGEST_S = 0.6
"""A unit whose next one comes later has ended before, as in FunASR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParaformerConfig(FunasrConfig):
    """Parameters of the `paraformer` component."""

    language: str = ""
    """Language of the model; a request with another one is an error. Empty takes any."""


class UnitWriter:
    """Writes segments by the units that are found in them."""

    def __init__(self, language: str, tokens: Sequence[str]) -> None:
        """Write by these symbols; a request for another language is an error, if there is one."""
        self._language, self._tokens = language, tokens
        self._has_spaces = has_spaces(tokens)

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        """Return the outputs of rows with `waveform`."""
        return [self._written(row) for row in rows]

    def _written(self, row: Row) -> Outputs:
        language = row.parameters.get("language", "auto")
        if self._language and language not in ("auto", self._language):
            raise OptionError(
                f"option 'language' takes auto or {self._language} with this Paraformer; "
                f"sent: {language!r:.40}"
            )
        units = self.units(row.segment(MAX_SEGMENT_S))
        words = words_of_units(units, has_spaces=self._has_spaces)
        return {
            "hypotheses": bytes_array([joined_text(word.text for word in words)]),
            "scores": np.array([sum(unit.log_prob for unit in units)], np.float32),
            **words_outputs(words),
        }

    def units(self, waveform: FloatArray) -> list[Unit]:
        """Return what is found in a waveform, float32 `[samples]` at 16 kHz."""
        raise NotImplementedError


class Paraformer(UnitWriter):
    """Finds all units of a segment at once."""

    def __init__(self, config: ParaformerConfig) -> None:
        """Load the network.

        Raises:
            ConfigError: the folder is none, or the network cannot be loaded.
        """
        found = opened_folder(config, PARAFORMER, read_paraformer)
        super().__init__(config.language, found.tokens)
        self._num_ends = found.num_ends
        self._network = LowRateNetwork(found, config.threads)

    def units(self, waveform: FloatArray) -> list[Unit]:
        """See `UnitWriter`."""
        outputs = self._network.run(waveform)
        if not outputs:
            return []
        logits, count = outputs[0][0], int(outputs[1].ravel()[0])
        logits = logits[: max(0, count - self._num_ends)]
        found = [self._tokens[unit] for unit in logits.argmax(axis=1)]
        found = found[: found.index(END)] if END in found else found
        log_probs = log_softmax(logits[: len(found)]).max(axis=1) if found else ()
        peaks = outputs[3][0] if len(outputs) > 3 else np.zeros(0, np.float32)
        times = times_of(len(found), peaks, len(waveform) / SAMPLE_RATE)
        return [
            Unit(symbol, start, end, float(log_prob))
            for symbol, (start, end), log_prob in zip(found, times, log_probs, strict=True)
            if symbol not in SILENT
        ]


def times_of(count: int, peaks: FloatArray, seconds: float) -> list[tuple[float, float]]:
    """Return start and end of each unit in seconds.

    A unit begins with its peak, and ends with the next one, at most 0.6 s later. Without a peak for
    each, and one behind the last, they share the audio evenly.

    Args:
        count: Number of units.
        peaks: float32 `[frames of 20 ms]`: 1 where a unit begins, below elsewhere.
        seconds: Length of the audio.
    """
    places = (np.flatnonzero(peaks > _PEAK) * _PEAK_S).tolist()
    if len(places) != count + 1:
        edges = np.linspace(0.0, seconds, count + 1).tolist()
        return [*pairwise(edges)]
    return [
        (min(at, seconds), min(following, at + _LONGEST_S, seconds))
        for at, following in pairwise(places)
    ]
