"""A Triton model repository of the networks of a folder, for the ONNX Runtime backend.

Shapes are those that ONNX Runtime infers, which may be narrower than what a file declares: the
backend compares outputs with them to the number.
"""

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from conch.catalogue.exports import OnnxNetwork
from conch.component.onnx import open_network
from conch.whole import made_whole
from conch.wire.errors import ConfigError

MARK = "<!-- Made by conch models export-repository -->"
README = "README.md"
MAX_BATCH = 64
CONTAINER = "nvcr.io/nvidia/tritonserver:25.08-py3"

Device = Literal["AUTO", "CPU", "GPU"]
"""Triton's kind of the device for instances."""

_BITS = (8, 16, 32, 64)
_TYPES = {
    **{f"{name}int{bits}": f"{name}int{bits}".upper() for name in ("", "u") for bits in _BITS},
    "float": "FP32",
    "double": "FP64",
    "bool": "BOOL",
}
"""Triton's types by those of ONNX Runtime."""
_TENSORRT = """
# An engine is made at the first request of a larger shape, in minutes. trt_engine_cache_path keeps
# it: mount a folder there. precision_mode FP16 is faster, and may write other texts.
optimization { execution_accelerators {
  gpu_execution_accelerator : [ {
    name : "tensorrt"
    parameters { key: "precision_mode" value: "FP32" }
    parameters { key: "max_workspace_size_bytes" value: "1073741824" }
    parameters { key: "trt_engine_cache_enable" value: "1" }
    parameters { key: "trt_engine_cache_path" value: "/tmp/engines" }
  } ]
} }
"""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    name: str
    data_type: str
    """Type as Triton calls it, without TYPE_."""
    dims: tuple[int, ...]
    """Sizes with that of the batch; -1 where one is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    name: str
    network: OnnxNetwork
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @property
    def max_batch(self) -> int:
        """Largest batch; 0 where the first axis of a tensor is not free."""
        is_free = all(item.dims[:1] == (-1,) for item in (*self.inputs, *self.outputs))
        return MAX_BATCH if is_free else 0

    @property
    def joins(self) -> bool:
        """Whether Triton may compute requests as one batch."""
        # An int8 product depends on all rows, and equal requests must get equal answers.
        return bool(self.max_batch) and not self.network.header.is_int8

    def config(self, device: Device, *, tensorrt: bool) -> str:
        joins = "dynamic_batching { max_queue_delay_microseconds: 2000 }\n"
        return "\n".join(
            [
                "# Made by conch models export-repository. -1 is open; the batch comes in front.",
                'backend: "onnxruntime"',
                f"max_batch_size: {self.max_batch}\n",
                *(self._ends("input", self.inputs), self._ends("output", self.outputs)),
                *([joins] if self.joins else []),
                f"instance_group [ {{ kind: KIND_{device} count: 1 }} ]",
                _TENSORRT if tensorrt else "",
            ]
        )

    def _ends(self, what: str, tensors: Iterable[TensorSpec]) -> str:
        reshape = " reshape: { shape: [ ] }"
        num_axes = 1 if self.max_batch else 0  # of a number
        listed = ",\n".join(
            f"  {{ name: {json.dumps(item.name)} data_type: TYPE_{item.data_type} "
            f"dims: {self._sizes(item)}{reshape * (len(item.dims) == num_axes)} }}"
            for item in tensors
        )
        return f"{what} [\n{listed}\n]\n"

    def _sizes(self, item: TensorSpec) -> list[int]:
        """Return the sizes that Triton knows: a number for each row is a tensor of one."""
        return [*(item.dims[1:] if self.max_batch else item.dims)] or [1]

    def section(self) -> str:
        batch_size = [-1] if self.max_batch else []
        rows = [
            f"| {way} `{item.name}` | {item.data_type} | {batch_size + self._sizes(item)} |"
            for way, items in (("in", self.inputs), ("out", self.outputs))
            for item in items
        ]
        batch = "One request at a time; the shapes are whole."
        if self.max_batch:
            batch = f"The first size is the batch, 1 to {self.max_batch}. "
            batch += (
                "Triton joins requests of equal shapes: pad to a few lengths."
                if self.joins
                else "It is int8, whose rows depend on each other: Triton joins no requests."
            )
        return "\n".join(
            [
                f"## {self.name}\n",
                f"{self.network.path.name} takes {self.network.takes}.\n{batch}\n",
                *("| tensor | type | shape |", "| --- | --- | --- |", *rows, ""),
            ]
        )


def models_of(name: str, networks: Iterable[OnnxNetwork]) -> list[Model]:
    """Return the models of networks that keep nothing, or raise a ConfigError for an unfit one."""
    stem = re.sub(r"[^\w.-]", "_", name)
    models = []
    for network in networks:
        if not network.keeper:
            session = open_network(f"the {network.part}", network.path, 1, is_optimised=False)
            ends = (session.get_inputs(), session.get_outputs())
            inputs, outputs = (tuple(map(_tensor, items)) for items in ends)
            model = f"{stem}_{network.part}"
            models.append(Model(name=model, network=network, inputs=inputs, outputs=outputs))
    return models


def _tensor(item: Any) -> TensorSpec:
    data_type = _TYPES.get(item.type.removeprefix("tensor(").removesuffix(")"))
    if data_type is None:
        raise ConfigError(f"{item.name!r} is a {item.type}, which Triton does not know")
    dims = tuple(size if isinstance(size, int) and size >= 0 else -1 for size in item.shape)
    return TensorSpec(item.name, data_type, dims)


def write_repository(
    target: Path,
    models: Sequence[Model],
    *,
    title: str,
    device: Device,
    tensorrt: bool,
    replaces: bool,
) -> None:
    """Write a repository whole, or raise a ConfigError; nothing else may be in the folder."""
    try:
        _check_free(target, replaces=replaces)
        target.parent.mkdir(parents=True, exist_ok=True)
        with made_whole(target) as made:
            made.mkdir()
            (made / README).write_text(_readme(target, models, title, device), "utf-8")
            for model in models:
                config = model.config(device, tensorrt=tensorrt)
                _check_config(config, model.name)
                version = made / model.name / "1"
                version.mkdir(parents=True)
                (made / model.name / "config.pbtxt").write_text(config, "utf-8")
                _link(model.network.path, version / "model.onnx")
                for name in model.network.header.external:
                    (version / name).parent.mkdir(parents=True, exist_ok=True)
                    _link(model.network.path.parent / name, version / name)
    except OSError as error:
        raise ConfigError(f"--out {target}: {error.strerror}") from None


def _check_free(target: Path, *, replaces: bool) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    readme = target / README
    if not readme.is_file() or not readme.read_text("utf-8", "replace").startswith(MARK):
        raise ConfigError(
            "--out takes a new or an empty folder, or one that conch models export-repository has "
            f"made; {target} has other content"
        )
    if not replaces:
        raise ConfigError(f"--out {target}: an earlier export is there: --force replaces it")


def _check_config(config: str, name: str) -> None:
    # Imported here: it takes a third of a second.
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    try:
        text_format.Parse(config, model_config_pb2.ModelConfig())
    except text_format.ParseError as error:
        raise ConfigError(f"the config of {name} is none of Triton: {error}") from None


def _link(source: Path, target: Path) -> None:
    """Let a second name stand for a file, or copy it: a container sees no other folder."""
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def _readme(target: Path, models: Iterable[Model], title: str, device: Device) -> str:
    gpus = "" if device == "CPU" else " --gpus all"
    volume = shlex.quote(f"{target.absolute()}:/models")  # docker takes other names for volumes
    return "\n".join(
        [
            MARK,
            f"# {title}, for Triton's ONNX Runtime backend\n",
            f"    docker run --rm{gpus} -p 8000-8002:8000-8002 -v {volume} \\",
            f"        {CONTAINER} tritonserver --model-repository=/models\n",
            "The models are networks alone: features, search and text are their callers' work.",
            "Units are numbered as in the tokens of the folder that the networks are from.",
            "On one disk a model is the same file as its network there: a copy over that changes "
            "both.\n",
            *(model.section() for model in models),
        ]
    )
