"""The CTC model chunk by chunk, as the `ctc_streaming_encoder` component."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conch.component import Outputs, Row
from conch.component.arrays import FloatArray
from conch.component.streams import StreamId, Streams
from conch.component.waveform import SAMPLE_RATE
from conch.models.ctc.onnx_model import ENCODER_FRAME_SAMPLES, Caches, CtcGraph, CtcGraphConfig
from conch.models.features import HISTORY, streaming_log_mel
from conch.wire.errors import AudioError, ConfigError, TranscriptionError

_WARM_BATCH, _WARM_STEPS = 2, 3
"""Streams and steps of the warm-up: 60 MB, which halves the time of the first batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcStreamingEncoderConfig(CtcGraphConfig):
    """Parameters of the `ctc_streaming_encoder` component."""

    chunk_ms: int = 640
    """What the model hears at a time: longer is more accurate, and later."""
    left_ms: int = 5120
    """What it remembers from before a chunk."""
    stream_ttl_s: float = 90.0
    """Seconds without a chunk after which a stream expires."""


@dataclass(slots=True)
class _Stream:
    waveform: FloatArray
    """Samples for the next chunk, behind `HISTORY` of those before."""
    caches: Caches


@dataclass(slots=True)
class _Hearing:
    """A row of this call: its stream and what it has been answered so far."""

    stream: _Stream
    ends: bool
    log_probs: list[FloatArray]


class CtcStreamingEncoder:
    """Samples of streams, in pieces of any length, to the log probabilities of units.

    The same as full chunks of `chunk_ms` in one masked pass: a piece is held until it completes a
    chunk, and the end of the stream gives what is left.
    """

    def __init__(self, config: CtcStreamingEncoderConfig) -> None:
        """Load the model.

        Raises:
            ConfigError: it cannot be loaded, or a length is none.
        """
        self._graph = CtcGraph(config)
        self._chunk = round(config.chunk_ms * SAMPLE_RATE / 1000)
        vocabulary = self._graph.vocabulary
        self._frame = ENCODER_FRAME_SAMPLES * vocabulary.stack
        # The blank and the space: neither is anything said.
        self._silent = [unit for unit, text in enumerate(vocabulary.texts) if not text.strip()]
        frame_ms = 1000 * self._frame // SAMPLE_RATE
        if self._chunk <= 0 or self._chunk % self._frame:
            raise ConfigError(f"chunk_ms takes a multiple of {frame_ms}; is: {config.chunk_ms}")
        if not 0 <= config.left_ms <= 30_000:
            raise ConfigError(f"left_ms takes 0 to 30000; is: {config.left_ms}")
        left_frames = round(config.left_ms * SAMPLE_RATE / 1000) // ENCODER_FRAME_SAMPLES
        start = self._graph.empty_caches(1, left_frames)
        silence = np.zeros(HISTORY, np.float32)
        self._warm_up(start)
        self._streams = Streams(lambda: _Stream(silence, start), config.stream_ttl_s)

    def __len__(self) -> int:
        """Return how many streams are open."""
        return len(self._streams)

    def held_bytes(self, stream_id: StreamId) -> int:
        """Return what is kept of an open stream."""
        stream = self._streams[stream_id]
        return stream.waveform.nbytes + sum(item.nbytes for item in stream.caches)

    def close(self) -> None:
        """Forget every stream."""
        self._streams.close()

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs | TranscriptionError]:
        """Answer rows with `waveform`, each the next one of its stream."""
        hearings: dict[int, _Hearing] = {}
        answers: dict[int, Outputs | TranscriptionError] = {}
        for index, row in enumerate(rows):
            try:
                hearings[index] = self._heard(row)
            except TranscriptionError as error:
                answers[index] = error
        while ready := [item for item in hearings.values() if self._has_chunk(item)]:
            self._step(ready)
        for index, hearing in hearings.items():
            log_probs = np.concatenate([self._no_frames, *hearing.log_probs])
            answers[index] = {
                "log_probs": log_probs,
                "log_probs_lens": np.array([len(log_probs)], np.int32),
                "speech_probs": 1 - np.exp(log_probs[:, self._silent]).sum(axis=1),
                "frame_samples": np.array([self._frame], np.int32),
            }
        return [answers[index] for index in range(len(rows))]

    def _warm_up(self, start: Caches) -> None:
        """Take the memory of a batch, which the first streams would wait half a second for."""
        silence = np.zeros(HISTORY + self._chunk, np.float32)
        for _ in range(_WARM_STEPS):
            self._step([_Hearing(_Stream(silence, start), False, []) for _ in range(_WARM_BATCH)])

    def _heard(self, row: Row) -> _Hearing:
        """Add a row's samples to its stream."""
        waveform = row.inputs["waveform"].ravel()
        stream = self._streams.take(row.stream_id, starts=row.starts, ends=row.ends)
        if not np.isfinite(waveform).all():
            raise AudioError("the chunk holds samples that are not finite numbers")
        stream.waveform = np.concatenate([stream.waveform, waveform])
        return _Hearing(stream, row.ends, [])

    def _has_chunk(self, hearing: _Hearing) -> bool:
        held = len(hearing.stream.waveform) - HISTORY
        return held >= self._chunk or (hearing.ends and held > 0)

    def _step(self, hearings: Sequence[_Hearing]) -> None:
        """Take the next chunk of each stream, all in one batch."""
        streams = [hearing.stream for hearing in hearings]
        features, lengths = [], []
        for stream in streams:
            chunk = stream.waveform[: HISTORY + self._chunk]
            padded = np.pad(chunk, (0, HISTORY + self._chunk - len(chunk)))
            features.append(streaming_log_mel(padded, self._graph.n_mels))
            # The last chunk may be short: rounded up to whole output frames.
            lengths.append(-(-(len(chunk) - HISTORY) // self._frame))
            # A copy: a view would keep the whole piece that the client sent.
            stream.waveform = stream.waveform[self._chunk :].copy()
        log_probs, caches = self._graph.step(
            np.stack(features),
            np.array(lengths, np.int64) * 2 * self._graph.vocabulary.stack,
            Caches.of_streams([stream.caches for stream in streams]),
        )
        for index, (hearing, length) in enumerate(zip(hearings, lengths, strict=True)):
            hearing.stream.caches = caches.of_stream(index)
            hearing.log_probs.append(log_probs[index, :length])

    @property
    def _no_frames(self) -> FloatArray:
        return np.zeros((0, len(self._graph.vocabulary.texts)), np.float32)
