"""The `transducer_encoder` component: recordings to what the decoder reads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conch.component import Outputs, Row
from conch.component.arrays import FloatArray
from conch.component.batches import buckets
from conch.component.kaldi_fbank import kaldi_fbank
from conch.component.waveform import SAMPLE_RATE
from conch.families.transducer.graphs import EncoderGraph, TransducerConfig, opened_folder
from conch.families.transducer.streams import EncodedStream, encode_chunks
from conch.wire.errors import ConfigError
from conch.wire.limits import MAX_SEGMENT_S

_LEAST = round(0.3 * SAMPLE_RATE)
"""Samples of the shortest recording: subsampling leaves nothing of less than 90 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransducerEncoderConfig(TransducerConfig):
    """Parameters of the `transducer_encoder` component."""

    max_padding: float = 0.2
    """Largest share of padding in a row of a batch. Rows that differ more are encoded apart."""
    max_batch_s: float = 16.0
    """Largest batch in seconds of audio, with padding; a longer row is encoded alone."""
    max_chunks: int = 4
    """Rows whose chunks a streaming encoder takes in one run."""


class TransducerEncoder:
    """Turns waveforms into frames for the decoder.

    An encoder for live audio gets each waveform in chunks, as a stream.
    """

    def __init__(self, config: TransducerEncoderConfig) -> None:
        """Load the encoder.

        Raises:
            ConfigError: it cannot be loaded, or a limit of the batches is out of range.
        """
        if not 0 <= config.max_padding < 1 or config.max_batch_s <= 0 or config.max_chunks < 1:
            raise ConfigError(
                "max_padding must be in [0, 1), max_batch_s above 0 and max_chunks at least 1"
            )
        self._config = config
        self._graph = EncoderGraph(opened_folder(config), config.threads)

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        """Return the outputs of rows with `waveform`."""
        waveforms = [row.segment(MAX_SEGMENT_S) for row in rows]
        is_live = self._graph.folder.is_live
        encoded = self._chunked(waveforms) if is_live else self._whole(waveforms)
        return [
            {"encoder_out": item, "encoder_out_lens": np.array([len(item)], np.int32)}
            for item in encoded
        ]

    def _whole(self, waveforms: Sequence[FloatArray]) -> list[FloatArray]:
        """Return the frames of waveforms; those of similar length share a batch."""
        padded = [np.pad(item, (0, max(0, _LEAST - len(item)))) for item in waveforms]
        features = [kaldi_fbank(item, self._graph.folder.num_mels) for item in padded]
        most = round(self._config.max_batch_s * SAMPLE_RATE)
        found: dict[int, FloatArray] = {}
        for batch in buckets([*map(len, waveforms)], self._config.max_padding, most):
            encoded = self._graph.encode([features[place] for place in batch])
            found.update(zip(batch, encoded, strict=True))
        return [found[place] for place in range(len(waveforms))]

    def _chunked(self, waveforms: Sequence[FloatArray]) -> list[FloatArray]:
        streams = [EncodedStream(self._graph) for _ in waveforms]
        for stream, waveform in zip(streams, waveforms, strict=True):
            stream.accept(waveform, ends=True)
        return encode_chunks(self._graph, streams, self._config.max_chunks)
