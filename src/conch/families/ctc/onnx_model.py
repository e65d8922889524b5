"""The exported CTC model: an ONNX graph for chunks with caches and for full context."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from conch.cache import cached, digest_of
from conch.component import FloatArray
from conch.component.features import HISTORY, streaming_log_mel
from conch.component.onnx import open_network
from conch.component.parameters import DeviceConfig, existing
from conch.decoding.units import ENCODER_FRAME_SAMPLES
from conch.families.ctc.vocabulary import SHIPPED, model_file, vocabulary_of
from conch.wire.errors import ConfigError

_WHAT = "the CTC model"
_REVISION = 2
"""Raise it with every change of `cpu_graph`."""


class Caches(NamedTuple):
    """State of a batch of streams between two steps; the first axis is the stream."""

    mel: FloatArray
    """Last features, float32 `[B, 2, n_mels]`."""
    conv: FloatArray
    """Last output of the first convolution, float32 `[B, 1, D]`."""
    keys: FloatArray
    """Attention keys, float32 `[B, layers, heads, left_frames, D / heads]`."""
    values: FloatArray
    """Attention values, with the shape of `keys`."""
    position: NDArray[np.int64]
    """Number of encoder frames so far, int64 `[B]`."""

    @classmethod
    def of_streams(cls, streams: Sequence["Caches"]) -> "Caches":
        if len(streams) == 1:
            return streams[0]
        return cls._make(map(np.concatenate, zip(*streams, strict=True)))

    def of_stream(self, index: int) -> "Caches":
        """Return a copy of the caches of one stream: a view would keep those of the whole batch."""
        return Caches._make(item[index : index + 1].copy() for item in self)


class CtcGraph:
    """Runs a CTC model: log-mel features and caches to log probabilities of units."""

    def __init__(self, config: DeviceConfig, *, is_whole: bool = False) -> None:
        """Open a model; with `is_whole` for `encode` alone, which is then faster on a CPU."""
        path = model_file(config.model)
        if config.device == "cuda":
            self._session = _open_on_cuda(path, config.threads, config.device_index)
        else:
            self._session = _open_on_cpu(path, config.threads, is_whole=is_whole)
        self.takes_any = is_whole and config.device == "cpu"
        inputs = {item.name: item.shape for item in self._session.get_inputs()}
        if not set(inputs) >= {"features", "lens", *Caches._fields}:
            raise ConfigError(
                f"{path} is not a graph of lab.training.ctc.export: it takes {set(inputs)}"
            )
        described = self._session.get_modelmeta().custom_metadata_map
        self.vocabulary = vocabulary_of(described, path)
        _, _, self.n_mels = inputs["mel"]
        _, self._num_layers, self._num_heads, _, self._head_size = inputs["keys"]

    def empty_caches(self, batch: int, left_frames: int) -> Caches:
        """Return the caches of `batch` new streams with `left_frames` frames of left context."""
        heads = (batch, self._num_layers, self._num_heads, left_frames, self._head_size)
        return Caches(
            mel=np.zeros((batch, 2, self.n_mels), np.float32),
            conv=np.zeros((batch, 1, self._num_heads * self._head_size), np.float32),
            keys=np.zeros(heads, np.float32),
            values=np.zeros(heads, np.float32),
            position=np.zeros(batch, np.int64),
        )

    def step(
        self, features: FloatArray, lens: NDArray[np.int64], caches: Caches
    ) -> tuple[FloatArray, Caches]:
        """Return the log probabilities of the next chunk of each stream, and the new caches.

        `features` are float32 `[B, F, n_mels]` of `streaming_log_mel`, F a multiple of 2 `stack`.
        `lens` are int64 `[B]`: valid frames of each stream; fewer than F end the stream. The log
        probabilities are float32 `[B, F / 2 / stack, vocab]`.
        """
        feed = {"features": features, "lens": lens, **caches._asdict()}
        log_probs, *rest = self._session.run(None, feed)
        return log_probs, Caches(*rest)

    def encode(
        self, waveforms: Sequence[FloatArray], _languages: Sequence[str] = (), /
    ) -> list[FloatArray]:
        """Return float32 `[ceil(samples / 320 / stack), vocab]` of each waveform at 16 kHz."""
        if self.takes_any and len(waveforms) > 1:
            return [self.encode([waveform])[0] for waveform in waveforms]
        stack = self.vocabulary.stack
        frame = ENCODER_FRAME_SAMPLES * stack
        lens = [-(-len(item) // frame) for item in waveforms]  # in output frames
        features = np.zeros((len(waveforms), max(lens) * 2 * stack, self.n_mels), np.float32)
        for row, (waveform, length) in enumerate(zip(waveforms, lens, strict=True)):
            padded = np.pad(waveform, (HISTORY, length * frame - len(waveform)))
            features[row, : length * 2 * stack] = streaming_log_mel(padded, self.n_mels)
        log_probs = self.log_probs(features, np.array(lens, np.int64) * 2 * stack)
        return [log_probs[row, :length] for row, length in enumerate(lens)]

    def log_probs(self, features: FloatArray, lens: NDArray[np.int64]) -> FloatArray:
        """Return the log probabilities of whole utterances in full context; see `step`."""
        feed = {"features": features, "lens": lens}
        caches = self.empty_caches(len(features), 0)
        (output,) = self._session.run(["log_probs"], {**feed, **caches._asdict()})
        return np.asarray(output)


def _open_on_cpu(path: Path, threads: int, *, is_whole: bool) -> onnxruntime.InferenceSession:
    def graph() -> bytes:
        # Where it is needed: it imports onnx, which takes a second and 30 MB.
        from conch.families.ctc.graphs import cpu_graph

        return cpu_graph(existing(path, _WHAT), is_whole=is_whole)

    def make(made: Path) -> None:
        made.write_bytes(graph())

    if path != SHIPPED:
        return open_network(_WHAT, path, threads, content=graph())
    name = f"ctc-{digest_of(path)}-{'whole' if is_whole else 'step'}-{_REVISION}.onnx"
    return open_network(_WHAT, cached(name, _WHAT, make), threads)


def _open_on_cuda(path: Path, threads: int, device_index: int) -> onnxruntime.InferenceSession:
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise ConfigError(
            "the onnxruntime that is installed knows no CUDA: pip uninstall onnxruntime, then "
            "pip install 'onnxruntime-gpu[cuda,cudnn]'"
        )
    # The loader of the system does not find the libraries of PyPI packages.
    onnxruntime.preload_dlls()
    try:
        from conch.families.ctc.graphs import float_graph
    except ImportError as error:
        raise ConfigError(
            "a CTC model on a GPU needs the package onnx, which turns its int8 products into "
            f"float32: pip install onnx ({error})"
        ) from error
    # By default cuDNN searches an algorithm for each shape of a batch, and hardly two batches have
    # the same shape.
    choice = {"device_id": device_index, "cudnn_conv_algo_search": "HEURISTIC"}
    existing(path, _WHAT)
    try:
        content = float_graph(path).SerializeToString()
    except Exception as error:  # onnx's exceptions share no base
        raise ConfigError(f"cannot load {_WHAT} {path}: {error}") from error
    session = open_network(_WHAT, path, threads, ("CUDAExecutionProvider", choice), content)
    if "CUDAExecutionProvider" not in session.get_providers():
        # onnxruntime logs the reason and uses the CPU instead, which is many times slower.
        raise ConfigError(
            "onnxruntime-gpu finds no CUDA, or not the version of CUDA and cuDNN that it was "
            "built for: pip install 'onnxruntime-gpu[cuda,cudnn]'; the log above has its reason"
        )
    return session
