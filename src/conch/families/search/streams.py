"""The features of streams, chunk by chunk, through a streaming encoder."""

from collections.abc import Sequence

import numpy as np

from conch.component.arrays import FloatArray
from conch.component.kaldi_fbank import FRAME_S
from conch.component.waveform import SAMPLE_RATE
from conch.families.search.graphs import EncoderGraph

_TAIL_FRAMES = 66
"""Frames of silence behind the end, in which a streaming model writes its last units: those of
sherpa-onnx's examples. The last chunk needs as many as it has."""


class EncodedStream:
    def __init__(self, graph: EncoderGraph) -> None:
        self._encoder = graph.encoder
        self._fbank = graph.extractor.stream()
        self._begun = 0
        """Feature frames before the next chunk."""
        self._samples = 0
        self._has_ended = False
        self.states = graph.new_states()

    @property
    def behind_s(self) -> float:
        return self._samples / SAMPLE_RATE - self._begun * FRAME_S

    @property
    def held_bytes(self) -> int:
        return sum(item.nbytes for item in self.states.arrays)

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
            encoder.takes_rest and self._has_ended and left >= encoder.window
        )

    def take_chunk(self) -> FloatArray:
        """Return the features of the next chunk, float32 `[frames, num_mels]`."""
        end = min(self._begun + self._encoder.chunk, self._fbank.ready)
        found = self._fbank.frames(self._begun, end)
        self._begun += self._encoder.shift
        return found


def encode_chunks(graph: EncoderGraph, streams: Sequence[EncodedStream]) -> list[FloatArray]:
    """Return what the encoder hears in all complete chunks of each stream.

    It is float32 `[frames, size]` for each; `[0, 0]` if none is complete. Streams that go on later
    need `States.alone`, so that none keeps the states of the others.
    """
    found: list[list[FloatArray]] = [[] for _ in streams]
    while ready := [place for place, stream in enumerate(streams) if stream.has_chunk]:
        out, states = graph.step(
            [streams[place].take_chunk() for place in ready],
            [streams[place].states for place in ready],
        )
        for place, frames, state in zip(ready, out, states, strict=True):
            # A copy: a view would keep the output of the whole batch.
            found[place].append(frames.copy())
            streams[place].states = state
    nothing = np.zeros((0, 0), np.float32)
    return [np.concatenate(items) if items else nothing for items in found]
