"""Encoders as components: segments, or the chunks of live streams, to frames."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from conch.component import SAMPLE_RATE, Array, FloatArray, Outputs, Row
from conch.component.kaldi_fbank import FRAME_S
from conch.component.streams import Streams
from conch.families.search.graphs import EncoderGraph, RecordingsConfig, fbank_of, features_of
from conch.wire.errors import AudioError, ConfigError, OptionError, TranscriptionError
from conch.wire.limits import MAX_SEGMENT_S, MAX_STEP_S

_LEAST = round(0.3 * SAMPLE_RATE)
"""Samples of the shortest recording: subsampling leaves nothing of less than 90 ms."""
_TAIL_FRAMES = 66
"""Frames of silence behind the end, in which a streaming model writes its last units: those of
sherpa-onnx's examples. The last chunk needs as many as it has."""


class EncodedStream:
    def __init__(self, graph: EncoderGraph, language: str = "auto") -> None:
        self._encoder = graph.encoder
        self._fbank = fbank_of(graph.encoder)
        self._begun = -graph.encoder.before
        """Feature frames before the next chunk; negative if it begins before the audio."""
        self._samples = 0
        self._has_ended = False
        self.states = graph.new_states(language)

    @property
    def behind_s(self) -> float:
        return self._samples / SAMPLE_RATE - (self._begun + self._encoder.before) * FRAME_S

    def accept(self, waveform: FloatArray, *, ends: bool = False) -> None:
        """Take float32 `[samples]`; with `ends`, silence follows for encoders of whole chunks."""
        self._samples += len(waveform)
        self._fbank.accept(waveform)
        if not ends:
            return
        self._has_ended = True
        if not self._encoder.takes_rest:
            tail = max(_TAIL_FRAMES, self._encoder.chunk + 1)
            self._fbank.accept(np.zeros(round(tail * FRAME_S * SAMPLE_RATE), np.float32))
        self._fbank.finish()

    @property
    def has_chunk(self) -> bool:
        """Whether the next chunk is complete, or the audio behind it has a frame."""
        left, encoder = self._fbank.ready - self._begun, self._encoder
        return left > encoder.chunk or (
            encoder.takes_rest and self._has_ended and left >= encoder.least
        )

    def take_chunk(self) -> FloatArray:
        """Return the features of the next chunk, float32 `[frames, num_mels]`.

        As in sherpa-onnx, zeros are before the audio, whatever its features.
        """
        first, end = self._begun, min(self._begun + self._encoder.chunk, self._fbank.ready)
        frames = self._fbank.frames(max(0, first), end)
        self._begun += self._encoder.shift
        return np.pad(frames, ((-first, 0), (0, 0))) if first < 0 else frames


class AudioStream(Protocol):
    """One live stream, and what its encoder keeps of it."""

    @property
    def behind_s(self) -> float:
        """Seconds of audio whose frames come later."""

    def accept(self, waveform: FloatArray, *, ends: bool = False) -> None:
        """Take the next samples, float32 `[samples]`."""

    @property
    def has_chunk(self) -> bool:
        """Whether the next chunk is complete."""


OneStream = TypeVar("OneStream", bound=AudioStream)


def encode_ready(
    streams: Sequence[OneStream],
    step: Callable[[list[OneStream]], Iterable[FloatArray]],
    width: int = 0,
) -> list[FloatArray]:
    """Return the frames of all complete chunks of each stream, `[0, width]` if none is complete.

    `step` takes the next chunk of each of several streams, and returns its frames `[frames, size]`.
    """
    encoded: list[list[FloatArray]] = [[] for _ in streams]
    while ready := [index for index, stream in enumerate(streams) if stream.has_chunk]:
        for index, frames in zip(ready, step([streams[index] for index in ready]), strict=True):
            encoded[index].append(frames)
    nothing = np.zeros((0, width), np.float32)
    return [np.concatenate(items) if items else nothing for items in encoded]


def encode_chunks(graph: EncoderGraph, streams: Sequence[EncodedStream]) -> list[FloatArray]:
    """Return the frames of all complete chunks of each stream, float32 `[frames, size]`.

    Streams that go on later need `States.alone`, so that none keeps the states of the others.
    """

    def step(ready: list[EncodedStream]) -> list[FloatArray]:
        chunks = [stream.take_chunk() for stream in ready]
        encoded, states = graph.step(chunks, [stream.states for stream in ready])
        for stream, state in zip(ready, states, strict=True):
            stream.states = state
        return encoded

    return encode_ready(streams, step)


class StreamEncoder(ABC, Generic[OneStream]):
    """Turns samples of streams, in pieces of any length, into frames for a search."""

    def __init__(self, new: Callable[[], OneStream], frames: str, stream_ttl_s: float) -> None:
        """`frames` names the tensor with the frames."""
        self._frames = frames
        self._streams = Streams(new, stream_ttl_s)

    @abstractmethod
    def encode(self, streams: Sequence[OneStream], /) -> list[FloatArray]:
        """Return the frames of each stream that its audio completes, float32 `[frames, size]`."""

    def __len__(self) -> int:
        return len(self._streams)

    def close(self) -> None:
        self._streams.close()

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs | Exception]:
        """Return the outputs of rows, each the next of its stream, which a defect closes alone."""
        streams: dict[int, OneStream] = {}
        answers: dict[int, Outputs | Exception] = {}
        for index, row in enumerate(rows):
            try:
                streams[index] = self._stream(row)
            except Exception as error:
                answers[index] = error
                if not isinstance(error, TranscriptionError):
                    self._streams.drop(row.stream_id)
        encoded = self.encode([*streams.values()])
        for (index, stream), frames in zip(streams.items(), encoded, strict=True):
            behind = max(0, round(stream.behind_s * SAMPLE_RATE))
            answers[index] = {
                **self.outputs(frames),
                "behind_samples": np.array([behind], np.int32),
            }
        return [answers[index] for index in range(len(rows))]

    def outputs(self, frames: FloatArray) -> dict[str, Array]:
        return {self._frames: frames, f"{self._frames}_lens": np.array([len(frames)], np.int32)}

    def _stream(self, row: Row) -> OneStream:
        waveform = row.waveform(MAX_STEP_S)
        stream = self._streams.take(row.stream_id, starts=row.starts, ends=row.ends)
        if not np.isfinite(waveform).all():
            raise AudioError("the chunk holds samples that are not finite numbers")
        stream.accept(waveform, ends=row.ends)
        return stream


class LiveEncoder(StreamEncoder[EncodedStream]):
    """Encodes streams by an export; without a graph for live audio it refuses all."""

    def __init__(
        self, graph: EncoderGraph | None, frames: str, decoder: str, model: str, stream_ttl_s: float
    ) -> None:
        """`frames` names the tensor with the frames; errors name the `decoder` and the `model`."""
        self._graph, self._decoder, self._model = graph, decoder, model

        def new() -> EncodedStream:
            assert graph is not None
            return EncodedStream(graph)

        super().__init__(new, frames, stream_ttl_s)

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs | Exception]:
        if self._graph is None:
            raise OptionError(
                f"option 'decoder' cannot be {self._decoder} for live audio here: the encoder in "
                f"{self._model} takes whole recordings"
            )
        return super().__call__(rows)

    def _stream(self, row: Row) -> EncodedStream:
        stream = super()._stream(row)
        if row.starts and self._graph:
            stream.states = self._graph.new_states(str(row.parameters.get("language", "auto")))
        return stream

    def encode(self, streams: Sequence[EncodedStream], /) -> list[FloatArray]:
        assert self._graph is not None
        frames = encode_chunks(self._graph, streams)
        for stream in streams:
            stream.states = stream.states.alone()
        return frames


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
        self._encoder, self._frames = encoder, frames

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        waveforms = [row.segment(MAX_SEGMENT_S) for row in rows]
        batches = [[*range(len(rows))]]
        if not self._encoder.takes_any:
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

    def encode(
        self, waveforms: Sequence[FloatArray], languages: Sequence[str] = (), /
    ) -> list[FloatArray]:
        """Return the frames of waveforms; see `WaveformEncoder`."""
        return self._encoder.encode(waveforms, languages)


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
