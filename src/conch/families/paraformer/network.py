"""The `paraformer` component: segments to texts."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnxruntime

from conch.catalogue.checks import UnfitModelError
from conch.catalogue.exports import PRECISIONS
from conch.catalogue.funasr import read_paraformer
from conch.catalogue.onnx_header import INT64
from conch.component import Outputs, Row, bytes_array
from conch.component.arrays import Array, FloatArray
from conch.component.lfr import LowFrameRate
from conch.component.onnx import open_network, session_options
from conch.component.parameters import DeviceConfig
from conch.component.waveform import SAMPLE_RATE
from conch.families.attention.tensors import words_outputs
from conch.families.paraformer.words import Unit, words_of_units
from conch.wire.errors import ConfigError, OptionError
from conch.wire.joining import joined_text
from conch.wire.limits import MAX_SEGMENT_S

logger = logging.getLogger(__name__)

END = "</s>"
_SILENT = {"<blank>", "<blk>", "<s>", "<unk>"}
"""Units that write no text."""
_PEAK = 1 - 1e-4
"""From here on a frame has found a unit."""
_PEAK_S = 0.02
"""Seconds from one peak to the next: three in each feature."""
_LONGEST_S = 0.6
"""A unit whose next one comes later has ended before, as in FunASR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParaformerConfig(DeviceConfig):
    """Parameters of the `paraformer` component."""

    precision: str = "float32"
    """File that is taken where there are two: float32 or int8."""
    language: str = ""
    """Language of the model; a request with another one is an error. Empty takes any."""


class Paraformer:
    """Writes segments, one by one: a padded row would be another text where the sum of a frame is
    close to that of a unit."""

    def __init__(self, config: ParaformerConfig) -> None:
        """Load the network.

        Raises:
            ConfigError: the folder is none, or the network cannot be loaded.
        """
        if not config.model:
            raise ConfigError("parameter 'model' is empty: conch serve --paraformer FOLDER sets it")
        if config.precision not in PRECISIONS:
            raise ConfigError(
                f"parameter 'precision' takes {' or '.join(PRECISIONS)}; is: "
                f"{config.precision!r:.40}"
            )
        try:
            found = read_paraformer(Path(config.model), config.precision)
        except UnfitModelError as error:
            raise ConfigError(f"{config.model} is no Paraformer: {error}") from None
        self._language, self._tokens, self._num_ends = config.language, found.tokens, found.num_ends
        self._has_spaces = any(token.startswith("▁") for token in found.tokens)
        self._front_end = LowFrameRate(**asdict(found.front_end))
        speech, lens = found.header.inputs
        self._inputs = speech.name, lens.name
        self._lens_type = np.int64 if lens.kind == INT64 else np.int32
        options = session_options(config.threads, keeps_memory=False)
        self._session = open_network("a Paraformer", found.network, options)
        # The activations of a long segment would be kept for the next one.
        self._once = onnxruntime.RunOptions()
        self._once.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")

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
        features = self._front_end.features(waveform)
        outputs = self._run(features) if len(features) else ()
        if not outputs:
            return []
        logits, count, *_ = outputs
        logits = logits[0, : max(0, int(count.ravel()[0]) - self._num_ends)]
        found = [self._tokens[unit] for unit in logits.argmax(axis=1)]
        found = found[: found.index(END)] if END in found else found
        logits = logits[: len(found)]
        best = logits.max(axis=1)
        log_probs = -np.log(np.exp(logits - best[:, None]).sum(axis=1))
        peaks = outputs[3][0] if len(outputs) > 3 else np.zeros(0, np.float32)
        times = times_of(len(found), peaks, len(waveform) / SAMPLE_RATE)
        return [
            Unit(symbol, start, end, float(log_prob))
            for symbol, (start, end), log_prob in zip(found, times, log_probs, strict=True)
            if symbol not in _SILENT
        ]

    def _run(self, features: FloatArray) -> Sequence[Array]:
        lens = np.array([len(features)], self._lens_type)
        feed = dict(zip(self._inputs, (features[None], lens), strict=True))
        try:
            found: Sequence[Array] = self._session.run(None, feed, self._once)
        except Exception as error:
            # Exported networks fail where they find no unit, in silence or noise.
            logger.warning("%d frames give no text: %s", len(features), error)
            return ()
        return found


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
