"""The `ctc_encoder` and `ctc_streaming_encoder` components: audio to log probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conch.catalogue.exports import check_precision
from conch.component import SAMPLE_RATE, Array, FloatArray, log_softmax
from conch.component.features import HISTORY, streaming_log_mel
from conch.decoding.units import ENCODER_FRAME_SAMPLES
from conch.families.ctc.folder import CtcFolder
from conch.families.ctc.onnx_model import Caches, CtcGraph
from conch.families.ctc.vocabulary import is_folder, read_folder, vocabulary_of_folder
from conch.families.search.encoders import (
    ExportedEncoder,
    LiveEncoder,
    RecordingEncoder,
    StreamEncoder,
    encode_ready,
)
from conch.families.search.graphs import EncoderGraph, FolderConfig, LiveConfig, RecordingsConfig
from conch.wire.errors import ConfigError

_WHAT = "the CTC model"
_WARM_BATCH, _WARM_STEPS = 2, 3
"""Streams and steps of the warm-up. It takes 60 MB and halves the time of the first batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcStreamingEncoderConfig(LiveConfig):
    chunk_ms: int = 640
    left_ms: int = 5120


class CtcStream:
    def __init__(self, chunk: int, caches: Caches) -> None:
        """`chunk` is in samples."""
        self._chunk, self.caches = chunk, caches
        self._waveform = np.zeros(HISTORY, np.float32)
        """The last `HISTORY` samples, then those for the next chunk."""
        self._has_ended = False

    @property
    def _held(self) -> int:
        """Samples for the next chunk; negative behind the last one, which may be shorter."""
        return len(self._waveform) - HISTORY

    @property
    def behind_s(self) -> float:
        return self._held / SAMPLE_RATE

    def accept(self, waveform: FloatArray, *, ends: bool = False) -> None:
        self._waveform = np.concatenate([self._waveform, waveform])
        self._has_ended = ends

    @property
    def has_chunk(self) -> bool:
        """Whether the next chunk is complete, or the audio ends in it."""
        return self._held >= self._chunk or (self._has_ended and self._held > 0)

    def take_chunk(self) -> tuple[FloatArray, int]:
        """Return the next chunk with the samples before it and zeros behind, and its length."""
        length = min(self._held, self._chunk)
        chunk = self._waveform[: HISTORY + length]
        # A view would keep the whole piece of the client in memory.
        self._waveform = self._waveform[self._chunk :].copy()
        return np.pad(chunk, (0, self._chunk - length)), length


def streaming_encoder(config: CtcStreamingEncoderConfig) -> "CtcStreamingEncoder | CtcExportLive":
    """Return the encoder of Conch's recipe, or that of a folder."""
    if model := opened_folder(config):
        return CtcExportLive(model, config.threads, config.stream_ttl_s)
    return CtcStreamingEncoder(config)


class CtcStreamingEncoder(StreamEncoder[CtcStream]):
    """Turns samples of streams, in pieces of any length, into log probabilities of units.

    Pieces are collected to full chunks of `chunk_ms`; the end of a stream encodes the rest. The
    result equals one pass over the whole audio with an attention mask.
    """

    def __init__(self, config: CtcStreamingEncoderConfig) -> None:
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
        self._warm_up(start)
        super().__init__(lambda: CtcStream(self._chunk, start), "log_probs", config.stream_ttl_s)

    def _warm_up(self, start: Caches) -> None:
        """Run some steps, because the first batch takes half a second longer for its memory."""
        streams = [CtcStream(self._chunk, start) for _ in range(_WARM_BATCH)]
        for stream in streams:
            stream.accept(np.zeros(_WARM_STEPS * self._chunk, np.float32))
        self.encode(streams)

    def encode(self, streams: Sequence[CtcStream], /) -> list[FloatArray]:
        """Return log probabilities of each stream, float32 `[frames, units]`."""
        return encode_ready(streams, self._step, len(self._graph.vocabulary.texts))

    def outputs(self, frames: FloatArray) -> dict[str, Array]:
        return super().outputs(frames) | speech_outputs(frames, self._silent, self._frame)

    def _step(self, streams: Sequence[CtcStream]) -> list[FloatArray]:
        chunks, samples = zip(*(stream.take_chunk() for stream in streams), strict=True)
        # The last chunk, which may be short, is rounded up to whole output frames.
        lens = [-(-length // self._frame) for length in samples]
        log_probs, caches = self._graph.step(
            np.stack([streaming_log_mel(chunk, self._graph.n_mels) for chunk in chunks]),
            np.array(lens, np.int64) * 2 * self._graph.vocabulary.stack,
            Caches.of_streams([stream.caches for stream in streams]),
        )
        for row, stream in enumerate(streams):
            stream.caches = caches.of_stream(row)
        return [row[:length] for row, length in zip(log_probs, lens, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcEncoderConfig(RecordingsConfig):
    max_batch_s: float = 8.0


class CtcEncoder(RecordingEncoder):
    def __init__(self, config: CtcEncoderConfig) -> None:
        model = opened_folder(config)
        encoder = CtcExport(model, config.threads) if model else CtcGraph(config, is_whole=True)
        self.vocabulary = encoder.vocabulary
        super().__init__(encoder, "log_probs", config)


def opened_folder(config: FolderConfig) -> CtcFolder | None:
    """Return the folder that the parameter `model` names; None for a graph of Conch's recipe."""
    if not is_folder(config.model):
        return None
    if config.device != "cpu":
        raise ConfigError(f"{config.model} is a folder of CTC, which runs on a CPU alone")
    check_precision(config.precision)
    return read_folder(config.model, config.precision)


class CtcExport(ExportedEncoder):
    def __init__(self, model: CtcFolder, threads: int) -> None:
        self.vocabulary, self._blank = vocabulary_of_folder(model), model.blank
        super().__init__(EncoderGraph(model.recordings, _WHAT, threads))

    def encode(
        self, waveforms: Sequence[FloatArray], languages: Sequence[str] = (), /
    ) -> list[FloatArray]:
        """Return log probabilities, those of the blank first."""
        size, encoded = len(self.vocabulary.texts), super().encode(waveforms, languages)
        return [_blank_first(item, self._blank, size) for item in encoded]


class CtcExportLive(LiveEncoder):
    def __init__(self, model: CtcFolder, threads: int, stream_ttl_s: float) -> None:
        vocabulary, self._blank = vocabulary_of_folder(model), model.blank
        self._silent = vocabulary.silent
        self._size, self._frame = len(vocabulary.texts), model.frame_ms * SAMPLE_RATE // 1000
        graph = EncoderGraph(model.live, _WHAT, threads) if model.live else None
        super().__init__(graph, "log_probs", "ctc", str(model.folder), stream_ttl_s)

    def outputs(self, frames: FloatArray) -> dict[str, Array]:
        log_probs = _blank_first(frames, self._blank, self._size)
        return super().outputs(log_probs) | speech_outputs(log_probs, self._silent, self._frame)


def speech_outputs(
    log_probs: FloatArray, silent: Sequence[int], frame_samples: int
) -> dict[str, Array]:
    """Return the speech outputs of live audio; `log_probs` are float32 `[frames, units]`."""
    return {
        "speech_probs": 1 - np.exp(log_probs[:, silent]).sum(axis=1),
        "frame_samples": np.array([frame_samples], np.int32),
    }


def _blank_first(written: FloatArray, blank: int, size: int) -> FloatArray:
    """Return log probabilities `[frames, units]` of what a network writes, the blank first."""
    if not len(written):
        return np.zeros((0, size), np.float32)
    log_probs = log_softmax(written)
    if not blank:
        return log_probs
    return np.concatenate([log_probs[:, blank, None], np.delete(log_probs, blank, 1)], axis=1)
