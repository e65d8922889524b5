"""Online Paraformer: the components for segments and for live audio, as sherpa-onnx computes them.

A chunk has ten joined frames, with five before it and three behind. The weights of those inside are
summed up (continuous integrate-and-fire, https://arxiv.org/abs/1905.11235): a frame in which the
sum passes 1 has found a unit, which the decoder names.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from conch.component import SAMPLE_RATE, FloatArray, IntArray, Outputs, Row, log_softmax
from conch.component.kaldi_fbank import FRAME_S
from conch.component.onnx import open_network
from conch.decoding.hypothesis import AlignedWord, CtcHypothesis
from conch.decoding.rows import checked_frames, outputs_of
from conch.families.funasr import ONLINE, UNITS
from conch.families.funasr.folder import OnlineParaformerFolder, read_online_paraformer
from conch.families.funasr.network import fbank_of, normalised, opened_folder
from conch.families.funasr.paraformer import SILENT, Unit, UnitWriter, has_spaces, words_of_units
from conch.families.search.encoders import StreamEncoder, encode_ready
from conch.families.search.graphs import DecoderConfig, LiveConfig
from conch.wire.errors import InvalidRequestError
from conch.wire.joining import joined_text
from conch.wire.languages import check_language

LEFT, CHUNK, RIGHT = 5, 10, 3
"""Joined frames before, in and behind a chunk."""
_TAIL_S = 0.9
"""Seconds of silence behind the end: until then all chunks with audio are complete."""


class OnlineNetworks:
    def __init__(self, model: OnlineParaformerFolder, threads: int) -> None:
        self.front_end = model.front_end
        self.frame_s = self.front_end.shift * FRAME_S
        self.scale = np.float32(math.sqrt(model.size))
        self.caches, self.size = model.caches, model.size
        self._encoder, self._decoder = (
            open_network(f"the {name} of an online Paraformer", path, threads)
            for name, path in (("encoder", model.network), ("decoder", model.decoder))
        )
        networks = self._encoder, self._decoder
        self._inputs = [[item.name for item in network.get_inputs()] for network in networks]

        # A product of int8 depends on all rows of a batch.
        self.is_one_by_one = any(
            header.is_int8 or isinstance(header.inputs[0].dims[0], int)
            for header in (model.header, model.decoder_header)
        )

    def encode(self, features: Sequence[FloatArray]) -> list[tuple[FloatArray, FloatArray]]:
        """Return what is heard in frames `[frames, features]`: states and weights of each row."""
        lens = np.full(len(features), len(features[0]), np.int32)
        feed = dict(zip(self._inputs[0], (np.stack(features), lens), strict=True))
        states, _, weights, *_ = self._encoder.run(None, feed)
        return [*zip(states, weights, strict=True)]

    def decode(self, jobs: Sequence[tuple["OnlineStream", "FiredChunk"]]) -> None:
        """Name the units of chunks with the same number of them, and keep the next caches."""
        streams, chunks = zip(*jobs, strict=True)
        states = np.stack([chunk.states for chunk in chunks])
        encodings = np.stack([chunk.encodings for chunk in chunks])
        caches = map(np.concatenate, zip(*(item.caches for item in streams), strict=True))
        num, count = (np.full(len(jobs), item.shape[1], np.int32) for item in (states, encodings))
        feed = dict(zip(self._inputs[1], (states, num, encodings, count, *caches), strict=True))
        logits, units, *after = self._decoder.run(None, feed)
        for row, (stream, chunk) in enumerate(jobs):
            log_probs = log_softmax(logits[row])[np.arange(len(chunk.unit_rows)), units[row]]
            chunk.rows[chunk.unit_rows] = np.stack([units[row], log_probs], axis=1)
            # A copy: a view would keep the caches of the whole batch.
            stream.caches = [
                item[row : row + 1, :, -before.shape[-1] :].copy()
                for item, before in zip(after, stream.caches, strict=True)
            ]


class FiredChunk(NamedTuple):
    """A chunk of a stream whose units have no names yet."""

    rows: FloatArray
    """Rows of `units_in_chunks`, all 0."""
    unit_rows: IntArray
    """Rows with a unit, int64 `[N]`."""
    encodings: FloatArray
    """Encoding of each unit, float32 `[N, size]`."""
    states: FloatArray
    """States of all frames, float32 `[frames, size]`."""


class OnlineStream:
    def __init__(self, networks: OnlineNetworks) -> None:
        self._networks, front = networks, networks.front_end
        self._fbank = fbank_of(front)
        self._span = front.window + (CHUNK - 1) * front.shift
        self._samples = self._chunks = 0
        self._before = np.zeros((LEFT + RIGHT, front.window * front.num_mels), np.float32)
        """Features before the next chunk."""
        self.caches = [np.zeros(shape, np.float32) for shape in networks.caches]
        self._sum = np.float32(0)
        """Sum of the weights since the last unit."""
        self._encoding = np.zeros(networks.size, np.float32)
        """Encoding of the next unit so far."""

    @property
    def behind_s(self) -> float:
        frames = max(0, CHUNK * self._chunks - RIGHT)
        return self._samples / SAMPLE_RATE - frames * self._networks.frame_s

    def accept(self, waveform: FloatArray, *, ends: bool = False) -> None:
        """Take the next samples, float32 `[samples]`; with `ends` those of silence behind them."""
        self._samples += len(waveform)
        tail = np.zeros(round(_TAIL_S * SAMPLE_RATE) if ends else 0, np.float32)
        self._fbank.accept(np.concatenate([waveform, tail]))

    @property
    def has_chunk(self) -> bool:
        return self._begin + self._span < self._fbank.ready

    @property
    def _begin(self) -> int:
        return CHUNK * self._networks.front_end.shift * self._chunks

    def take_chunk(self) -> FloatArray:
        """Return the features of the next chunk and those around it, `[frames, features]`."""
        front = self._networks.front_end
        frames = self._fbank.frames(self._begin, self._begin + self._span)
        # Those of a chunk have all of their neighbours.
        windows = np.lib.stride_tricks.sliding_window_view(frames, front.window, axis=0)
        windows = windows[:: front.shift].swapaxes(1, 2).reshape(CHUNK, -1)
        joined = normalised(front, windows) * self._networks.scale
        joined += positions(CHUNK * self._chunks + 1, *joined.shape)
        with_context: FloatArray = np.concatenate([self._before, joined])
        self._before = with_context[-(LEFT + RIGHT) :]
        self._chunks += 1
        return with_context

    def fire(self, states: FloatArray, weights: FloatArray) -> FiredChunk:
        """Return the chunk that was taken, with its units; arguments are those of its frames."""
        unit_frames, encodings = [], []
        for frame in range(CHUNK):
            weight, state = weights[LEFT + frame], states[LEFT + frame]
            if self._sum + weight < 1:
                self._sum += weight
                self._encoding = self._encoding + state * weight
                continue
            encodings.append(self._encoding + state * (np.float32(1) - self._sum))
            self._sum += weight - np.float32(1)
            self._encoding = state * self._sum
            unit_frames.append(frame)
        rows, at = np.zeros((CHUNK, 2), np.float32), np.array(unit_frames, np.int64)
        if self._chunks == 1:
            # The frames in front are before the audio.
            rows, order = rows[RIGHT:], np.arange(len(at))
            at = np.maximum(at - RIGHT - order, 0) + order
        return FiredChunk(rows, at, np.array(encodings, np.float32), states)


def units_in_chunks(networks: OnlineNetworks, streams: Sequence[OnlineStream]) -> list[FloatArray]:
    """Return the units in all complete chunks of each stream, each stream once.

    They are float32 `[frames, 2]`, a frame for each that was joined: the number of the unit that is
    found in it, or 0, and its log probability.
    """
    if networks.is_one_by_one and len(streams) > 1:
        return [units_in_chunks(networks, [stream])[0] for stream in streams]

    def step(ready: list[OnlineStream]) -> list[FloatArray]:
        encoded = networks.encode([stream.take_chunk() for stream in ready])
        jobs = [(stream, stream.fire(*item)) for stream, item in zip(ready, encoded, strict=True)]
        # Padding would get into the caches.
        for count in {len(chunk.unit_rows) for _, chunk in jobs} - {0}:
            networks.decode([job for job in jobs if len(job[1].unit_rows) == count])
        return [chunk.rows for _, chunk in jobs]

    return encode_ready(streams, step, 2)


def positions(first: int, count: int, size: int) -> FloatArray:
    """Return position encodings, float32 `[count, size]` as in sherpa-onnx: sines, then cosines."""
    half = size // 2
    slope = np.float32(-math.log(10_000) / (half - 1))
    rates = np.exp(np.arange(half, dtype=np.float32) * slope)
    angles = np.arange(first, first + count, dtype=np.float32)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


class OnlineParaformerComponent(UnitWriter):
    """Hears each segment as a stream."""

    def __init__(self, config: DecoderConfig) -> None:
        model = opened_folder(config, ONLINE, read_online_paraformer)
        super().__init__(config.language, model.tokens)
        self._networks = OnlineNetworks(model, config.threads)

    def units(self, waveform: FloatArray, hotwords: Sequence[str] = (), /) -> list[Unit]:
        stream = OnlineStream(self._networks)
        stream.accept(waveform, ends=True)
        (frames,) = units_in_chunks(self._networks, [stream])
        return units_of(frames, self._tokens, self._networks.frame_s)


def units_of(
    frames: FloatArray, tokens: Sequence[str], frame_s: float, first: int = 0
) -> list[Unit]:
    """Return the units in frames `[frames, 2]` of `units_in_chunks` that write text.

    A frame lasts `frame_s` seconds, or whatever the times are in; `first` is the number of the
    first.
    """
    (indices,) = frames[:, 0].nonzero()
    return [
        Unit(symbol, (first + at) * frame_s, (first + at + 1) * frame_s, float(frames[at, 1]))
        for at in indices.tolist()
        if (symbol := tokens[int(frames[at, 0])]) not in SILENT
    ]


class OnlineEncoder(StreamEncoder[OnlineStream]):
    def __init__(self, config: LiveConfig) -> None:
        model = opened_folder(config, ONLINE, read_online_paraformer)
        self._networks = networks = OnlineNetworks(model, config.threads)
        super().__init__(lambda: OnlineStream(networks), UNITS, config.stream_ttl_s)

    def encode(self, streams: Sequence[OnlineStream], /) -> list[FloatArray]:
        return units_in_chunks(self._networks, streams)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineDecoderConfig:
    model: str = ""
    precision: str = "float32"
    language: str = ""
    stream_ttl_s: float = 90.0


class UnitSearch:
    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens, self._has_spaces = tokens, has_spaces(tokens)
        self._units: list[Unit] = []
        self._frames = 0

    def advance(self, frames: FloatArray) -> None:
        """Take the next frames, float32 `[T, 2]`."""
        self._units += units_of(frames, self._tokens, 1.0, self._frames)
        self._frames += len(frames)

    def nbest(self, count: int, *, is_final: bool) -> list[CtcHypothesis]:
        score = sum(unit.log_prob for unit in self._units)
        words = self._words()
        text = joined_text(word.text for word in words)
        return [CtcHypothesis(text, words, score, score, 0.0)]

    def stable_text(self) -> str:
        """Return all words but the last, which may go on."""
        return joined_text(word.text for word in self._words()[:-1])

    def _words(self) -> tuple[AlignedWord, ...]:
        return tuple(
            AlignedWord(word.text, round(word.start), round(word.end), word.confidence)
            for word in words_of_units(self._units, has_spaces=self._has_spaces)
        )


class UnitSearcher:
    def __init__(self, config: OnlineDecoderConfig) -> None:
        model = opened_folder(config, ONLINE, read_online_paraformer)
        self._tokens, self._language = model.tokens, config.language
        self._frame_s = model.front_end.shift * FRAME_S

    def new_search(self, parameters: Mapping[str, Any]) -> UnitSearch:
        check_language(parameters, self._language, "Paraformer")
        return UnitSearch(self._tokens)

    def checked_frames(self, row: Row) -> FloatArray:
        """Return a row's frames, float32 `[T, 2]`."""
        frames = checked_frames(row, UNITS, 2, self._frame_s)
        if len(frames) and not 0 <= frames[:, 0].min() <= frames[:, 0].max() < len(self._tokens):
            raise InvalidRequestError(f"{UNITS} takes units from 0 to {len(self._tokens) - 1}")
        return frames

    def advance(
        self, searches: Sequence[UnitSearch], frames: Sequence[FloatArray]
    ) -> list[Exception | None]:
        for search, item in zip(searches, frames, strict=True):
            search.advance(item)
        return [None] * len(searches)

    def outputs(self, hypotheses: Sequence[CtcHypothesis]) -> Outputs:
        return outputs_of(hypotheses, self._frame_s)
