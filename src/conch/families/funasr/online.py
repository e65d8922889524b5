"""Online Paraformer: live audio to units, chunk by chunk, as sherpa-onnx does it.

A chunk has ten joined frames, with five before it and three behind. The weights of those inside are
summed up (continuous integrate-and-fire, https://arxiv.org/abs/1905.11235): a frame in which the
sum passes 1 has found a unit, which the decoder names.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from conch.catalogue import funasr
from conch.catalogue.funasr import read_online_paraformer
from conch.component.arrays import Array, FloatArray, IntArray
from conch.component.kaldi_fbank import FRAME_S
from conch.component.lfr import LowFrameRate
from conch.component.onnx import open_network, session_options
from conch.component.waveform import SAMPLE_RATE
from conch.families.funasr.declaration import ONLINE, UNITS
from conch.families.funasr.network import FunasrConfig, log_softmax, opened_folder
from conch.families.funasr.paraformer import SILENT, ParaformerConfig, UnitWriter
from conch.families.funasr.words import Unit
from conch.families.search.live import StreamEncoder

LEFT, CHUNK, RIGHT = 5, 10, 3
"""Joined frames before, in and behind a chunk."""
_TAIL_S = 0.9
"""Seconds of silence behind the end: until then all chunks with audio are complete."""


class OnlineNetworks:
    """Encoder and decoder."""

    def __init__(self, found: funasr.OnlineParaformer, threads: int) -> None:
        """Load them.

        Raises:
            ConfigError: one cannot be loaded.
        """
        self.front_end = LowFrameRate(**asdict(found.front_end))
        self.frame_s = self.front_end.shift * FRAME_S
        self.scale = np.float32(math.sqrt(found.size))
        self.caches, self.size = found.caches, found.size
        options = session_options(threads, keeps_memory=False)
        self._encoder, self._decoder = (
            open_network(f"the {name} of an online Paraformer", path, options)
            for name, path in (("encoder", found.network), ("decoder", found.decoder))
        )
        networks = self._encoder, self._decoder
        self._inputs = [[item.name for item in network.get_inputs()] for network in networks]

    def encode(self, features: FloatArray) -> tuple[Array, Array, FloatArray]:
        """Return what is heard in frames `[frames, features]`: states, their number, weights."""
        lens = np.array([len(features)], np.int32)
        feed = dict(zip(self._inputs[0], (features[None], lens), strict=True))
        states, num, weights, *_ = self._encoder.run(None, feed)
        return states, num, weights[0]

    def decode(
        self, heard: tuple[Array, Array], found: FloatArray, caches: Sequence[Array]
    ) -> tuple[IntArray, FloatArray, list[Array]]:
        """Return units `[N]` that were found, their log probabilities, and the next caches.

        Args:
            heard: The states of a chunk, and their number.
            found: float32 `[N, size]`.
            caches: Of the chunk before.
        """
        lens = np.array([len(found)], np.int32)
        feed = dict(zip(self._inputs[1], (*heard, found[None], lens, *caches), strict=True))
        logits, units, *after = self._decoder.run(None, feed)
        log_probs = log_softmax(logits[0])[np.arange(len(found)), units[0]]
        sizes = zip(after, caches, strict=True)
        return units[0], log_probs, [item[..., -before.shape[-1] :] for item, before in sizes]


class OnlineStream:
    """One stream, and what encoder and decoder keep of it."""

    def __init__(self, networks: OnlineNetworks) -> None:
        """Begin a stream."""
        self._networks, front = networks, networks.front_end
        self._fbank = front.stream()
        self._span = front.window + (CHUNK - 1) * front.shift
        self._samples = self._chunks = 0
        self._before = np.zeros((LEFT + RIGHT, front.window * front.num_mels), np.float32)
        """Features before the next chunk."""
        self._caches = [np.zeros(shape, np.float32) for shape in networks.caches]
        self._sum = np.float32(0)
        """Of the weights since the last unit."""
        self._found = np.zeros(networks.size, np.float32)
        """Of the next unit so far."""

    @property
    def behind_s(self) -> float:
        """Seconds of audio whose frames come later."""
        frames = max(0, CHUNK * self._chunks - RIGHT)
        return self._samples / SAMPLE_RATE - frames * self._networks.frame_s

    @property
    def held_bytes(self) -> int:
        """Size of the states in bytes."""
        return sum(item.nbytes for item in (*self._caches, self._before, self._found))

    def accept(self, waveform: FloatArray, *, ends: bool = False) -> None:
        """Take the next samples, float32 `[samples]`; with `ends` those of silence behind them."""
        self._samples += len(waveform)
        tail = np.zeros(round(_TAIL_S * SAMPLE_RATE) if ends else 0, np.float32)
        self._fbank.accept(self._networks.front_end.scaled(np.concatenate([waveform, tail])))

    def units(self) -> FloatArray:
        """Return the units in all complete chunks.

        Returns:
            float32 `[frames, 2]`, one frame for each that was joined: the number of the unit that
            is found in it, or 0, and its log probability.
        """
        rows = [np.zeros((0, 2), np.float32)]
        step = CHUNK * self._networks.front_end.shift
        while (begin := step * self._chunks) + self._span < self._fbank.ready:
            frames = self._fbank.frames(begin, begin + self._span)
            rows.append(self._chunk(frames))
            self._chunks += 1
        return np.concatenate(rows)

    def _chunk(self, frames: FloatArray) -> FloatArray:
        networks, front = self._networks, self._networks.front_end
        # Those of a chunk have all of their neighbours.
        windows = np.lib.stride_tricks.sliding_window_view(frames, front.window, axis=0)
        windows = windows[:: front.shift].swapaxes(1, 2).reshape(CHUNK, -1)
        joined = front.normalised(windows) * networks.scale
        joined += positions(CHUNK * self._chunks + 1, *joined.shape)
        heard = np.concatenate([self._before, joined])
        self._before = heard[-(LEFT + RIGHT) :]
        states, num, weights = networks.encode(heard)
        places, found = self._fired(states[0], weights)
        rows = np.zeros((CHUNK, 2), np.float32)
        if not self._chunks:
            # The frames in front are before the audio.
            rows = rows[RIGHT:]
            places = np.maximum(places - RIGHT - np.arange(len(places)), 0) + np.arange(len(places))
        if len(places):
            units, log_probs, self._caches = networks.decode((states, num), found, self._caches)
            rows[places, 0], rows[places, 1] = units, log_probs
        return rows

    def _fired(self, states: FloatArray, weights: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the frames of a chunk with a unit, `[N]`, and what was heard of each unit."""
        places, found = [], []
        for place in range(CHUNK):
            weight, state = weights[LEFT + place], states[LEFT + place]
            if self._sum + weight < 1:
                self._sum += weight
                self._found = self._found + state * weight
                continue
            found.append(self._found + state * (np.float32(1) - self._sum))
            self._sum += weight - np.float32(1)
            self._found = state * self._sum
            places.append(place)
        return np.array(places, np.int64), np.array(found, np.float32)


def positions(first: int, count: int, size: int) -> FloatArray:
    """Return the encoding of places from `first` on, float32 `[count, size]`: sines, then cosines.

    In float32, as sherpa-onnx computes it.
    """
    half = size // 2
    slope = np.float32(-math.log(10_000) / (half - 1))
    rates = np.exp(np.arange(half, dtype=np.float32) * slope)
    angles = np.arange(first, first + count, dtype=np.float32)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


class OnlineParaformer(UnitWriter):
    """Hears each segment as a stream."""

    def __init__(self, config: ParaformerConfig) -> None:
        """Load the networks.

        Raises:
            ConfigError: the folder is none, or a network cannot be loaded.
        """
        found = opened_folder(config, ONLINE, read_online_paraformer)
        super().__init__(config.language, found.tokens)
        self._networks = OnlineNetworks(found, config.threads)

    def units(self, waveform: FloatArray, hotwords: Sequence[str] = (), /) -> list[Unit]:
        """See `UnitWriter`."""
        stream = OnlineStream(self._networks)
        stream.accept(waveform, ends=True)
        return units_of(stream.units(), self._tokens, self._networks.frame_s)


def units_of(
    frames: FloatArray, tokens: Sequence[str], frame_s: float, first: int = 0
) -> list[Unit]:
    """Return the units in frames `[frames, 2]` of `OnlineStream.units` that write text.

    Args:
        frames: Of a stream.
        tokens: Symbol of each unit.
        frame_s: Seconds, or whatever the times are in, of a frame.
        first: Number of the first frame.
    """
    (places,) = frames[:, 0].nonzero()
    return [
        Unit(symbol, (first + at) * frame_s, (first + at + 1) * frame_s, float(frames[at, 1]))
        for at in places.tolist()
        if (symbol := tokens[int(frames[at, 0])]) not in SILENT
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineEncoderConfig(FunasrConfig):
    """Parameters of the `paraformer_online_encoder` component."""

    stream_ttl_s: float = 90.0
    """Seconds without a chunk after which a stream expires."""


class OnlineEncoder(StreamEncoder[OnlineStream]):
    """Turns samples of streams into units."""

    def __init__(self, config: OnlineEncoderConfig) -> None:
        """Load the networks.

        Raises:
            ConfigError: the folder is none, or a network cannot be loaded.
        """
        networks = OnlineNetworks(
            opened_folder(config, ONLINE, read_online_paraformer), config.threads
        )
        super().__init__(lambda: OnlineStream(networks), UNITS, config.stream_ttl_s)

    def encode(self, streams: Sequence[OnlineStream], /) -> list[FloatArray]:
        """See `StreamEncoder`."""
        return [stream.units() for stream in streams]
