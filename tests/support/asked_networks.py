"""Requests for exported networks, made from their configs as a caller would."""

from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from numpy.typing import NDArray
from tritonclient.grpc import model_config_pb2

FRAMES = 20
"""Size of an axis that is open, but for those below."""
_TYPES = {"FP32": np.float32, "INT32": np.int32, "INT64": np.int64}
_SAMPLES = 3200
_UNITS = {"y": 3, "targets": 3, "language": 3, "textnorm": 14, "hotword": 4}
_JOINED = ("encoder_outputs", "decoder_outputs", "targets", "states.1", "onnx::Slice_3")
"""Those that take one frame, unit or stream."""


def config_of(model: Path) -> Any:
    text = (model / "config.pbtxt").read_text("utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def kind_of(item: Any) -> str:
    """Return the type of a tensor of a config, as clients name it."""
    return str(model_config_pb2.DataType.Name(item.data_type).removeprefix("TYPE_"))


def asked(config: Any, batch: int) -> dict[str, NDArray[Any]]:
    """Return a tensor for each input of a config, by name, as a client sends it."""
    random, found = np.random.default_rng(1), {}
    for item in config.input:
        open_size = 1 if item.name in _JOINED else FRAMES
        if len(item.dims) == 1 and item.name == "x":
            open_size = _SAMPLES
        shape = [open_size if size < 0 else size for size in item.dims]
        kind = _TYPES[kind_of(item)]
        if config.max_batch_size:
            shape = [batch, *shape]
        elif item.dims[0] < 0:
            shape[0] = batch
        if kind is np.float32:
            found[item.name] = random.normal(-8, 1, shape).astype(kind)
        else:
            found[item.name] = np.full(shape, _UNITS.get(item.name, FRAMES), kind)
    return found


def as_network(config: Any, tensors: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the tensors as Triton hands them to the network: some without the size 1."""
    shapeless = {item.name for item in config.input if item.HasField("reshape")}
    batch = int(config.max_batch_size > 0)
    return {
        name: array.reshape(array.shape[:batch]) if name in shapeless else array
        for name, array in tensors.items()
    }
