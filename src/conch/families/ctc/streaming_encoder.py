"""The `ctc_streaming_encoder` component: the CTC model chunk by chunk."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conch.component import Outputs, Row
from conch.component.arrays import FloatArray
from conch.component.features import HISTORY, streaming_log_mel
from conch.component.streams import StreamId, Streams
from conch.component.waveform import SAMPLE_RATE
from conch.decoding.units import ENCODER_FRAME_SAMPLES
from conch.families.ctc.exported import CtcConfig, CtcExportLive, opened_folder, speech_outputs
from conch.families.ctc.onnx_model import Caches, CtcGraph
from conch.wire.errors import AudioError, ConfigError, TranscriptionError
from conch.wire.limits import MAX_STEP_S

_WARM_BATCH, _WARM_STEPS = 2, 3
"""Streams and steps of the warm-up. It takes 60 MB and halves the time of the first batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcStreamingEncoderConfig(CtcConfig):
    """Parameters of the `ctc_streaming_encoder` component."""

    chunk_ms: int = 640
    """Length of a chunk. Longer chunks are more accurate, and later."""
    left_ms: int = 5120
    """Left context of a chunk."""
    stream_ttl_s: float = 90.0
    """Seconds without a chunk after which a stream expires."""


@dataclass(slots=True)
class _Stream:
    waveform: FloatArray
    """The last `HISTORY` samples, then those for the next chunk."""
    caches: Caches


@dataclass(slots=True)
class _Job:
    """A row of a call: its stream and its output so far."""

    stream: _Stream
    ends: bool
    log_probs: list[FloatArray]


def streaming_encoder(
    config: CtcStreamingEncoderConfig,
) -> "CtcStreamingEncoder | CtcExportLive":
    """Return the encoder of Conch's recipe, or that of a folder.

    Raises:
        ConfigError: the model cannot be loaded, or a length is out of range.
    """
    if found := opened_folder(config):
        return CtcExportLive(found, config.threads, config.stream_ttl_s)
    return CtcStreamingEncoder(config)


class CtcStreamingEncoder:
    """Turns samples of streams, in pieces of any length, into log probabilities of units.

    Pieces are collected to full chunks of `chunk_ms`; the end of a stream encodes the rest. The
    result equals one pass over the whole audio with an attention mask.
    """

    def __init__(self, config: CtcStreamingEncoderConfig) -> None:
        """Load the model.

        Raises:
            ConfigError: the model cannot be loaded, or a length is out of range.
        """
        self._graph = CtcGraph(config)
        self._chunk = round(config.chunk_ms * SAMPLE_RATE / 1000)
        vocabulary = self._graph.vocabulary
        self._frame = ENCODER_FRAME_SAMPLES * vocabulary.stack
        self._silent = vocabulary.silent
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
        """Return the number of open streams."""
        return len(self._streams)

    def held_bytes(self, stream_id: StreamId) -> int:
        """Return the size of an open stream's state in bytes."""
        stream = self._streams[stream_id]
        return stream.waveform.nbytes + sum(item.nbytes for item in stream.caches)

    def close(self) -> None:
        """Close all streams."""
        self._streams.close()

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs | Exception]:
        """Return the outputs of rows with `waveform`, each the next one of its stream.

        A defect in reading a row closes its stream. The other streams of the batch go on.
        """
        jobs: dict[int, _Job] = {}
        answers: dict[int, Outputs | Exception] = {}
        for index, row in enumerate(rows):
            try:
                jobs[index] = self._job(row)
            except TranscriptionError as error:
                answers[index] = error
            except Exception as error:
                answers[index] = error
                self._streams.drop(row.stream_id)
        while ready := [item for item in jobs.values() if self._has_chunk(item)]:
            self._step(ready)
        for index, job in jobs.items():
            log_probs = np.concatenate([self._no_frames, *job.log_probs])
            # Of the end the last chunk is shorter than a whole one.
            behind = max(0, len(job.stream.waveform) - HISTORY)
            answers[index] = {
                "log_probs": log_probs,
                "log_probs_lens": np.array([len(log_probs)], np.int32),
                **speech_outputs(log_probs, self._silent, self._frame),
                "behind_samples": np.array([behind], np.int32),
            }
        return [answers[index] for index in range(len(rows))]

    def _warm_up(self, start: Caches) -> None:
        """Run some steps, because the first batch takes half a second longer for its memory."""
        silence = np.zeros(HISTORY + self._chunk, np.float32)
        for _ in range(_WARM_STEPS):
            self._step([_Job(_Stream(silence, start), False, []) for _ in range(_WARM_BATCH)])

    def _job(self, row: Row) -> _Job:
        """Add a row's samples to its stream."""
        waveform = row.waveform(MAX_STEP_S)
        stream = self._streams.take(row.stream_id, starts=row.starts, ends=row.ends)
        if not np.isfinite(waveform).all():
            raise AudioError("the chunk holds samples that are not finite numbers")
        stream.waveform = np.concatenate([stream.waveform, waveform])
        return _Job(stream, row.ends, [])

    def _has_chunk(self, job: _Job) -> bool:
        held = len(job.stream.waveform) - HISTORY
        return held >= self._chunk or (job.ends and held > 0)

    def _step(self, jobs: Sequence[_Job]) -> None:
        """Encode the next chunk of each stream in one batch."""
        streams = [job.stream for job in jobs]
        features, lengths = [], []
        for stream in streams:
            chunk = stream.waveform[: HISTORY + self._chunk]
            padded = np.pad(chunk, (0, HISTORY + self._chunk - len(chunk)))
            features.append(streaming_log_mel(padded, self._graph.n_mels))
            # Round the last chunk, which may be short, up to whole output frames.
            lengths.append(-(-(len(chunk) - HISTORY) // self._frame))
            # A view would keep the whole piece of the client in memory.
            stream.waveform = stream.waveform[self._chunk :].copy()
        log_probs, caches = self._graph.step(
            np.stack(features),
            np.array(lengths, np.int64) * 2 * self._graph.vocabulary.stack,
            Caches.of_streams([stream.caches for stream in streams]),
        )
        for index, (job, length) in enumerate(zip(jobs, lengths, strict=True)):
            job.stream.caches = caches.of_stream(index)
            job.log_probs.append(log_probs[index, :length])

    @property
    def _no_frames(self) -> FloatArray:
        return np.zeros((0, len(self._graph.vocabulary.texts)), np.float32)
