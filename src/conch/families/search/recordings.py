"""An encoder of recordings as a component: segments to frames."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from conch.component import SAMPLE_RATE, FloatArray, Outputs, Row
from conch.families.search.graphs import EncoderGraph, RecordingsConfig, features_of
from conch.families.search.live import EncodedStream, encode_chunks
from conch.wire.errors import ConfigError
from conch.wire.limits import MAX_SEGMENT_S

_LEAST = round(0.3 * SAMPLE_RATE)
"""Samples of the shortest recording: subsampling leaves nothing of less than 90 ms."""


class WaveformEncoder(Protocol):
    takes_any: bool
    """Whether recordings of any lengths share a batch without padding."""

    def encode(
        self, waveforms: Sequence[FloatArray], languages: Sequence[str] = (), /
    ) -> list[FloatArray]:
        """Return the frames of waveforms, float32 `[samples]` at 16 kHz, as one batch.

        Their languages matter to a model that is told them.
        """


class RecordingEncoder:
    """Turns waveforms into frames for a search; those of similar length share a batch."""

    def __init__(self, encoder: WaveformEncoder, frames: str, config: RecordingsConfig) -> None:
        """`frames` names the tensor with the frames."""
        self._max_padding, most_s = config.max_padding, config.max_batch_s
        if not 0 <= self._max_padding < 1 or most_s <= 0:
            raise ConfigError("max_padding must be in [0, 1) and max_batch_s above 0")
        self._max_samples = round(most_s * SAMPLE_RATE)
        self.encode, self._takes_any, self._frames = encoder.encode, encoder.takes_any, frames

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        waveforms = [row.segment(MAX_SEGMENT_S) for row in rows]
        batches = [[*range(len(rows))]]
        if not self._takes_any:
            batches = buckets([*map(len, waveforms)], self._max_padding, self._max_samples)
        languages = [str(row.parameters.get("language", "auto")) for row in rows]
        by_index: dict[int, FloatArray] = {}
        for batch in batches:
            encoded = self.encode(
                [waveforms[index] for index in batch], [languages[index] for index in batch]
            )
            by_index.update(zip(batch, encoded, strict=True))
        return [
            {self._frames: frames, f"{self._frames}_lens": np.array([len(frames)], np.int32)}
            for frames in (by_index[index] for index in range(len(rows)))
        ]


class ExportedEncoder:
    """Encodes recordings by an export; one for live audio gets them in chunks."""

    def __init__(self, graph: EncoderGraph) -> None:
        self._graph, self.takes_any = graph, graph.encoder.is_live

    def encode(
        self, waveforms: Sequence[FloatArray], languages: Sequence[str] = (), /
    ) -> list[FloatArray]:
        if not self.takes_any:
            padded = [np.pad(item, (0, max(0, _LEAST - len(item)))) for item in waveforms]
            return self._graph.encode([features_of(self._graph.encoder, item) for item in padded])
        languages = languages or ["auto"] * len(waveforms)
        streams = [EncodedStream(self._graph, language) for language in languages]
        for stream, waveform in zip(streams, waveforms, strict=True):
            stream.accept(waveform, ends=True)
        return encode_chunks(self._graph, streams)


def buckets(lens: Sequence[int], max_padding: float, max_total: int) -> list[list[int]]:
    """Return batches of items of similar length, as lists of indexes.

    An item has at least `1 - max_padding` of the length of the longest in its batch. The longest
    times the size of the batch is at most `max_total`; a longer item is alone.

    >>> buckets([10, 5, 9, 30], max_padding=0.2, max_total=40)
    [[3], [0, 2], [1]]
    """
    batches: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lens)), key=lambda item: -lens[item]):
        fits = batches and lens[index] >= (1 - max_padding) * longest
        if fits and longest * (len(batches[-1]) + 1) <= max_total:
            batches[-1].append(index)
        else:
            batches.append([index])
            longest = lens[index]
    return batches
