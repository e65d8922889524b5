"""A streaming encoder as a component: live audio to frames, chunk by chunk."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from conch.component import Array, Outputs, Row
from conch.component.arrays import FloatArray
from conch.component.streams import StreamId, Streams
from conch.component.waveform import SAMPLE_RATE
from conch.families.search.graphs import EncoderGraph
from conch.families.search.streams import EncodedStream, encode_chunks
from conch.wire.errors import AudioError, OptionError, TranscriptionError
from conch.wire.limits import MAX_STEP_S


class HeardStream(Protocol):
    """One live stream, and what its encoder keeps of it."""

    @property
    def behind_s(self) -> float:
        """Seconds of audio whose frames come later."""
        ...

    @property
    def held_bytes(self) -> int: ...

    def accept(self, waveform: FloatArray, *, ends: bool = False) -> None:
        """Take the next samples, float32 `[samples]`."""
        ...


OneStream = TypeVar("OneStream", bound=HeardStream)


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

    def held_bytes(self, stream_id: StreamId) -> int:
        return self._streams[stream_id].held_bytes

    def close(self) -> None:
        self._streams.close()

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs | Exception]:
        """Return the outputs of rows, each the next of its stream, which a defect closes alone."""
        streams: dict[int, OneStream] = {}
        answers: dict[int, Outputs | Exception] = {}
        for place, row in enumerate(rows):
            try:
                streams[place] = self._stream(row)
            except Exception as error:
                answers[place] = error
                if not isinstance(error, TranscriptionError):
                    self._streams.drop(row.stream_id)
        encoded = self.encode([*streams.values()])
        for (place, stream), frames in zip(streams.items(), encoded, strict=True):
            behind = max(0, round(stream.behind_s * SAMPLE_RATE))
            answers[place] = {
                **self.outputs(frames),
                "behind_samples": np.array([behind], np.int32),
            }
        return [answers[place] for place in range(len(rows))]

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
    """The streams of an export. One without a graph, as that of recordings, refuses all."""

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

    def encode(self, streams: Sequence[EncodedStream], /) -> list[FloatArray]:
        assert self._graph is not None
        found = encode_chunks(self._graph, streams)
        for stream in streams:
            stream.states = stream.states.alone()
        return found
