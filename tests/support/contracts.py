"""The tensors of a config.pbtxt, and those that a family declares, in one form."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from conch.families.family import ComponentInfo, TensorInfo

TYPES = {"TYPE_STRING": "BYTES"}


def parsed(path: Path) -> Any:
    return text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())


def tensors(specs: Any) -> dict[str, str]:
    names = {item.name: model_config_pb2.DataType.Name(item.data_type) for item in specs}
    return {name: TYPES.get(kind, kind.removeprefix("TYPE_")) for name, kind in names.items()}


def check_contract(config: Any, component: ComponentInfo) -> None:
    """Check that a config has the tensors that its component declares, and keeps streams or not."""
    assert _configured(config.input) == _declared(component.inputs)
    assert _configured(config.output) == _declared(component.outputs)
    assert config.HasField("sequence_batching") == component.is_stream


def _configured(specs: Any) -> list[tuple[str, str, list[int], bool]]:
    kinds = tensors(specs)
    # An output has no field `optional`: a caller asks for those that it wants.
    return [
        (item.name, kinds[item.name], list(item.dims), getattr(item, "optional", False))
        for item in specs
    ]


def _declared(specs: Sequence[TensorInfo]) -> list[tuple[str, str, list[int], bool]]:
    return [(item.name, item.datatype, list(item.dims), item.is_optional) for item in specs]
