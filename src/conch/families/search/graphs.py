"""The encoder of an export on ONNX Runtime: its folder, its features and its states."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from conch.catalogue.checks import UnfitModelError
from conch.catalogue.exports import KALDI, PROMPT, AcousticEncoder, check_precision
from conch.catalogue.onnx_header import INT32, INT64
from conch.component import Array, FloatArray
from conch.component.kaldi_fbank import KaldiFbank, icefall_options, narrow_fbank
from conch.component.onnx import open_network
from conch.component.parameters import DeviceConfig
from conch.wire.errors import ConfigError, OptionError
from conch.wire.languages import known_to

_LEAST_VARIANCE = _LEAST_DEVIATION = 1e-5
_GUARD = 2.0**-24
Folder = TypeVar("Folder")
PADDING = float(np.log(np.float32(1e-10)))
"""A feature behind the end of a recording, as sherpa-onnx pads a batch."""
TYPES = {INT32: np.int32, INT64: np.int64}
"""Types of tensors that are not float32."""
_MOST_ROWS = 4
"""Most rows of one run of chunks: the states of more do not fit into the cache of a core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderConfig(DeviceConfig):
    precision: str = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingsConfig(FolderConfig):
    max_padding: float = 0.2
    max_batch_s: float = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveConfig(FolderConfig):
    stream_ttl_s: float = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig(FolderConfig):
    language: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDecoderConfig(DecoderConfig):
    stream_ttl_s: float = 90.0


class NamesFolder(Protocol):
    @property
    def model(self) -> str: ...

    @property
    def precision(self) -> str: ...


def folder_of(
    config: NamesFolder, flag: str, problem: str, read: Callable[[Path, str], Folder]
) -> Folder:
    """Return what `read` finds, by folder and precision.

    `flag` of `conch serve` has no dashes. `problem` goes between the folder and the reason, such as
    "is no …".
    """
    if not config.model:
        raise ConfigError(f"parameter 'model' is empty: conch serve --{flag} FOLDER sets it")
    check_precision(config.precision)
    try:
        return read(Path(config.model), config.precision)
    except UnfitModelError as error:
        raise ConfigError(f"{config.model} {problem}: {error}") from None


@dataclass(frozen=True, slots=True)
class States:
    """States of an encoder for one stream: a row of those of a batch."""

    arrays: tuple[Array, ...]
    axes: tuple[int, ...]
    """The axis of the rows in each array."""
    row: int

    def alone(self) -> "States":
        """Return a copy without the rest of the batch, which would stay in memory with it."""
        pairs = zip(self.arrays, self.axes, strict=True)
        return States(tuple(np.take(item, [self.row], axis) for item, axis in pairs), self.axes, 0)


def joined(states: Sequence[States]) -> tuple[Array, ...]:
    """Return the states of several streams as one batch; of those of a whole batch no copy."""
    first = states[0]
    sizes = {item.shape[axis] for item, axis in zip(first.arrays, first.axes, strict=True)}
    if sizes <= {len(states)} and all(
        item.arrays is first.arrays and item.row == row for row, item in enumerate(states)
    ):
        return first.arrays
    return tuple(
        np.concatenate([np.take(item.arrays[index], [item.row], axis) for item in states], axis)
        for index, axis in enumerate(first.axes)
    )


class EncoderGraph:
    def __init__(self, encoder: AcousticEncoder, what: str, threads: int) -> None:
        """`what` names the encoder in errors."""
        self.encoder = encoder
        # Chunks are small: runs side by side wait less for each other than threads of one run.
        self._at_once = math.ceil(math.sqrt(threads)) if encoder.is_live else 1
        self._pool = ThreadPoolExecutor(self._at_once, "encoder")
        # The threads of a session serve all its runs, beside those that call it.
        self._threads = threads - self._at_once + 1
        self._session = open_network(what, encoder.path, self._threads)
        header, states = encoder.header, encoder.states
        self._inputs = [item.name for item in header.inputs]
        # In front of the states some give the number of frames.
        given = sum(item.is_given for item in states)
        names = [item.name for item in header.outputs]
        self._outputs = [names[0], *names[len(names) - given :]]
        # A product of int8 depends on all rows of a batch, and equal requests must get equal
        # answers.
        self.is_one_by_one = header.is_int8 or not encoder.takes_batches

    def new_states(self, language: str = "auto") -> States:
        """Return the states of a new stream; `language` matters to an encoder with prompts."""
        states, prompts = self.encoder.states, self.encoder.prompts
        if prompts and language not in prompts:
            known = known_to(sorted(prompts), language)
            raise OptionError(
                f"option 'language' takes {known} with this model; sent: {language!r:.40}"
            )
        arrays = (
            np.full(
                item.shape,
                prompts[language] if item.name == PROMPT else item.start,
                TYPES.get(item.element_type, np.float32),
            )
            for item in states
        )
        return States(tuple(arrays), tuple(item.axis for item in states), 0)

    def step(
        self, chunks: Sequence[FloatArray], states: Sequence[States]
    ) -> tuple[list[FloatArray], list[States]]:
        """Return float32 `[frames, size]` and new states of chunks float32 `[chunk, num_mels]`."""
        share = math.ceil(len(chunks) / self._at_once)
        most = 1 if self.is_one_by_one else min(share, _MOST_ROWS)
        starts = range(0, len(chunks), most)
        runs = self._pool.map(
            lambda start: self._run(chunks[start : start + most], states[start : start + most]),
            starts,
        )
        out: list[FloatArray] = []
        after: list[States] = []
        for its_out, its_states in runs:
            out += its_out
            after += its_states
        return out, after

    def _run(
        self, chunks: Sequence[FloatArray], states: Sequence[States]
    ) -> tuple[list[FloatArray], list[States]]:
        before, known = joined(states), self.encoder.states
        feed = {
            item.name: np.asarray(array[0]) if item.is_bare else array
            for item, array in zip(known, before, strict=True)
        }
        x = self._stacked(chunks)
        # In windows the zeros beside the audio count, as in sherpa-onnx.
        lens = [x.shape[1] if self.encoder.before else len(item) for item in chunks]
        feed |= {self._inputs[0]: self._arranged(x), **self._further(lens, feed)}
        out, *new = self.run(feed)
        kept = iter(new)
        after = tuple(
            (next(kept)[None] if item.is_bare else next(kept))
            if item.is_given
            else array + item.counts
            for item, array in zip(known, before, strict=True)
        )
        rows = zip(self._frames_of(out), chunks, strict=True)
        frames = [row[self.encoder.written(len(item))] for row, item in rows]
        return frames, [States(after, states[0].axes, row) for row in range(len(states))]

    def encode(self, features: Sequence[FloatArray]) -> list[FloatArray]:
        """Return float32 `[frames / subsampling, size]`, about, of each `[frames, num_mels]`."""
        if self.is_one_by_one and len(features) > 1:
            return [out for item in features for out in self.encode([item])]
        lens = [len(item) for item in features]
        padding = 0.0 if self.encoder.is_normalised else PADDING
        x = _padded(features, max(lens), padding)
        feed: dict[str, Array] = {self._inputs[0]: self._arranged(x)}
        for other in self.encoder.header.inputs[1:]:
            is_mask = len(other.dims) > 1
            given = np.arange(max(lens)) < np.array(lens)[:, None] if is_mask else np.array(lens)
            feed[other.name] = given.astype(TYPES.get(other.element_type, np.int64))
        out, *more = self.run(feed)
        out_lens = more[0] if more else [length // self.encoder.subsampling for length in lens]
        return [row[:length] for row, length in zip(self._frames_of(out), out_lens, strict=True)]

    def run(self, feed: Mapping[str, Array]) -> list[Array]:
        """Return what the encoder gives: frames, then states, or lengths of recordings."""
        wanted = self._outputs if self.encoder.is_live else None
        outputs: list[Array] = self._session.run(wanted, feed)
        return outputs

    def _stacked(self, chunks: Sequence[FloatArray]) -> FloatArray:
        """Return chunks as a batch, with zeros behind a short one where the encoder takes these."""
        is_whole = "chunk_lens" in self._inputs or self.encoder.before
        x = _padded(chunks, self.encoder.chunk if is_whole else max(map(len, chunks)))
        if not self.encoder.is_normalised:
            return x
        # With caches as NeMo's `online_normalization`, in windows as sherpa-onnx.
        return _normalised(x, is_sample=bool(self.encoder.states))

    def _frames_of(self, out: FloatArray) -> FloatArray:
        """Return frames, float32 `[N, frames, size]`, of what the encoder gives."""
        if self.encoder.frames_first:
            return out.transpose(1, 0, 2)
        return out.transpose(0, 2, 1) if self.encoder.frames_last else out

    def _arranged(self, x: FloatArray) -> FloatArray:
        """Return features, float32 `[N, frames, size]`, as the encoder takes them."""
        if not self.encoder.features:
            return x[:, :, 0]
        return x.transpose(0, 2, 1) if self.encoder.features.filters_first else x

    def _further(self, lens: Sequence[int], states: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs of a chunk that are neither features nor states."""
        inputs: dict[str, Array] = {}
        left, chunk = self.encoder.left, self.encoder.shift // self.encoder.subsampling
        for item in self.encoder.header.inputs:
            match item.name:
                case "length" | "chunk_lens":
                    inputs[item.name] = np.array(lens, TYPES.get(item.element_type))
                case "required_cache_size":
                    inputs[item.name] = np.full([1] * len(item.dims), left)
                case "attn_mask" | "att_mask":
                    # `offset` begins with the frames that are not there.
                    is_present = np.arange(left + chunk) >= 2 * left - states["offset"].item()
                    inputs[item.name] = is_present[None, None]
        return inputs


def _padded(features: Sequence[FloatArray], length: int, padding: float = 0.0) -> FloatArray:
    """Return features of several rows as a batch `[N, length, size]`."""
    batch = np.full((len(features), length, features[0].shape[1]), padding, np.float32)
    for row, item in zip(batch, features, strict=True):
        row[: len(item)] = item
    return batch


def fbank_of(encoder: AcousticEncoder, *, has_log: bool = True) -> KaldiFbank:
    """Return the features of a new stream of audio in [-1, 1], which are not normalised."""
    features = encoder.features or KALDI
    options = icefall_options(encoder.num_mels, is_mfcc=features.is_mfcc)
    options.frame_opts.window_type = features.window
    options.frame_opts.frame_length_ms = features.window_ms
    options.frame_opts.snip_edges = features.snip_edges
    options.frame_opts.remove_dc_offset = features.removes_mean
    options.mel_opts.low_freq, options.mel_opts.high_freq = features.low, features.high
    options.mel_opts.is_librosa = features.is_librosa
    if not features.is_mfcc:
        options.use_log_fbank = has_log
    return KaldiFbank(encoder.num_mels, options, 32_768.0 if features.is_16_bit else 1.0)


def features_of(encoder: AcousticEncoder, waveform: FloatArray) -> FloatArray:
    """Return the features of float32 `[samples]` in [-1, 1] at 16 kHz, float32 `[frames, size]`."""
    if not encoder.features:
        if encoder.is_normalised:
            centred = waveform - waveform.mean()
            waveform = centred / np.sqrt(centred.var() + _LEAST_VARIANCE)
        return waveform.astype(np.float32, copy=False)[:, None]
    if encoder.features.is_narrow:
        low, high = encoder.features.low, encoder.features.high
        return narrow_fbank(waveform, encoder.num_mels, low, high)
    has_guard = encoder.is_normalised and encoder.features.filters_first
    frames = fbank_of(encoder, has_log=not has_guard).whole(waveform)
    if encoder.means:
        return np.asarray((frames - np.array(encoder.means)) * encoder.scales, np.float32)
    if has_guard:
        frames = np.log(frames + np.float32(_GUARD))
    return _normalised(frames) if encoder.is_normalised else frames


def _normalised(log: FloatArray, *, is_sample: bool = False) -> FloatArray:
    """Return features with mean 0 and deviation 1 of each filter: NeMo's `per_feature`."""
    centred = log - log.mean(axis=-2, keepdims=True)
    deviation = log.std(axis=-2, ddof=int(is_sample), keepdims=True)
    return np.asarray(centred / (deviation + _LEAST_DEVIATION), np.float32)
