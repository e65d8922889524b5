"""The exported CTC model: one ONNX graph for chunks with caches and for full context."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from conch.component.arrays import FloatArray
from conch.component.parameters import share_of_cores
from conch.component.waveform import SAMPLE_RATE
from conch.models.ctc import WEIGHTS
from conch.wire.errors import ConfigError

ENCODER_FRAME_SAMPLES = 320
"""Samples of one encoder frame: 20 ms."""
SHIPPED = WEIGHTS / "ctc-en.onnx"


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcGraphConfig:
    """Which graph, and where it runs."""

    model: str = ""
    """An .onnx file of `lab.training.ctc.export`; empty is the one that comes with Conch."""
    device: str = "cpu"
    """cpu or cuda (with onnxruntime-gpu); left out of config.pbtxt, the instance's kind decides."""
    device_index: int = 0
    """Which GPU, with device cuda."""
    intra_threads: int = 0
    """CPU threads of one call; 0 is the instance's share of the cores."""
    instances: int = 1
    """That share the cores; left out of config.pbtxt, as many as its instance group has."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a graph writes, and how often."""

    texts: tuple[str, ...]
    """The text of each unit; the first is the blank's, empty. A space parts words."""
    stack: int
    """Encoder frames of one output frame."""
    units: str
    """As JSON, for `conch.models.ctc.units.units_from_dict`."""

    @property
    def frame_s(self) -> float:
        """Seconds of an output frame."""
        return self.stack * ENCODER_FRAME_SAMPLES / SAMPLE_RATE


class Caches(NamedTuple):
    """What a batch of streams keeps from one step to the next; the first axis is the stream."""

    mel: FloatArray
    """float32 `[B, 2, n_mels]`: the last features."""
    conv: FloatArray
    """float32 `[B, 1, D]`: the first convolution's last output."""
    keys: FloatArray
    """float32 `[B, layers, heads, left_frames, D / heads]`."""
    values: FloatArray
    """As keys."""
    position: NDArray[np.int64]
    """int64 `[B]`: encoder frames that the stream has had."""

    @classmethod
    def of_streams(cls, streams: Sequence["Caches"]) -> "Caches":
        """Return the caches of several streams as those of one batch."""
        if len(streams) == 1:
            return streams[0]
        return cls._make(map(np.concatenate, zip(*streams, strict=True)))

    def of_stream(self, index: int) -> "Caches":
        """Return one stream's own, as a batch of one that keeps no other in memory."""
        if len(self.position) == 1:
            return self
        return Caches._make(item[index : index + 1].copy() for item in self)


class CtcGraph:
    """Log-mel features and caches to the log probabilities of units; see `CtcModel.step`."""

    def __init__(self, config: CtcGraphConfig) -> None:
        """Load the graph.

        Raises:
            ConfigError: the file is missing, no such graph, or cannot run on the device.
        """
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = config.intra_threads or share_of_cores(config.instances)
        # Threads that spin after a call would take the cores from the other components.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        provider: tuple[str, dict[str, int | str]] = ("CPUExecutionProvider", {})
        if config.device == "cuda":
            # By default every convolution is tried out anew for each shape of a batch, and hardly
            # two batches share one.
            search = {"cudnn_conv_algo_search": "HEURISTIC"}
            provider = ("CUDAExecutionProvider", {"device_id": config.device_index, **search})
            _find_cuda()
        self._session = _opened(config.model, options, provider)
        if provider[0] not in self._session.get_providers():
            # onnxruntime logs what is missing and goes on with the CPU, many times slower.
            raise ConfigError(
                "onnxruntime-gpu finds no CUDA, or not the version of CUDA and cuDNN that it was "
                "built for: pip install 'onnxruntime-gpu[cuda,cudnn]'; the log above has its reason"
            )
        self.vocabulary = _vocabulary(self._session)
        inputs = {item.name: item.shape for item in self._session.get_inputs()}
        _, _, self.n_mels = inputs["mel"]
        _, self._num_layers, self._num_heads, _, self._head_size = inputs["keys"]

    def empty_caches(self, batch: int, left_frames: int) -> Caches:
        """Return the start of `batch` streams that see `left_frames` before each chunk."""
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
        """Return log probabilities of the next chunk of each stream, and what it leaves.

        Args:
            features: float32 `[B, F, n_mels]` of `streaming_log_mel`, F a multiple of 2 `stack`.
            lens: int64 `[B]`: of F, how many frames are the stream's; less than F ends it.
            caches: of the last step, or `empty_caches`.

        Returns:
            float32 `[B, F / 2 / stack, vocab]`, and the caches for the next step.
        """
        feed = {"features": features, "lens": lens, **caches._asdict()}
        log_probs, *rest = self._session.run(None, feed)
        return log_probs, Caches(*rest)

    def log_probs(self, features: FloatArray, lens: NDArray[np.int64]) -> FloatArray:
        """Return log probabilities of whole utterances in full context; see `step`."""
        feed = {"features": features, "lens": lens}
        caches = self.empty_caches(len(features), 0)
        (found,) = self._session.run(["log_probs"], {**feed, **caches._asdict()})
        log_probs: FloatArray = found
        return log_probs


def _find_cuda() -> None:
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise ConfigError(
            "the onnxruntime that is installed knows no CUDA: pip uninstall onnxruntime, then "
            "pip install 'onnxruntime-gpu[cuda,cudnn]'"
        )
    # Those of the packages from PyPI lie where the system's loader does not look.
    onnxruntime.preload_dlls()


def read_vocabulary(model: str) -> Vocabulary:
    """Return what a graph writes, without keeping the graph.

    Args:
        model: an .onnx file; empty is the one that comes with Conch.

    Raises:
        ConfigError: the file is missing or no such graph.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return _vocabulary(_opened(model, options, ("CPUExecutionProvider", {})))


def _opened(
    model: str, options: onnxruntime.SessionOptions, provider: tuple[str, dict[str, int | str]]
) -> onnxruntime.InferenceSession:
    path = Path(model) if model else SHIPPED
    if not path.is_file():
        raise ConfigError(f"the CTC model {path} does not exist")
    options.log_severity_level = 3  # errors only
    try:
        source = path if provider[0] == "CPUExecutionProvider" else _in_float(path)
        session = onnxruntime.InferenceSession(source, options, providers=[provider])
    except ConfigError:
        raise
    except Exception as error:  # onnxruntime's own exceptions share no public base
        raise ConfigError(f"cannot load the CTC model {path}: {error}") from error
    inputs = {item.name for item in session.get_inputs()}
    if not inputs >= {"features", "lens", *Caches._fields}:
        raise ConfigError(f"{path} is not a graph of lab.training.ctc.export: it takes {inputs}")
    return session


def _in_float(path: Path) -> bytes:
    try:
        from conch.models.ctc.int8_product import float_graph
    except ImportError as error:
        raise ConfigError(
            "a CTC model on a GPU needs the package onnx, which turns its int8 products into "
            f"float32: pip install onnx ({error})"
        ) from error
    content: bytes = float_graph(path).SerializeToString()
    return content


def _vocabulary(session: onnxruntime.InferenceSession) -> Vocabulary:
    described = session.get_modelmeta().custom_metadata_map
    texts = tuple(json.loads(described["vocab"]))
    return Vocabulary(texts, int(described["stack"]), described["units"])
