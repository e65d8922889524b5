"""The messages and methods of Riva's protocol, which `protocol.binpb` has compiled.

They are in a pool of their own: a program may import NVIDIA's client too, whose modules register
the same names. After a change of a `.proto` file, compile them in their folder:
`python -m grpc_tools.protoc -I. --descriptor_set_out=protocol.binpb *.proto`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

Message: TypeAlias = Any
"""A message: protobuf makes its classes when this module is imported."""

POOL = DescriptorPool()
for _file in FileDescriptorSet.FromString(Path(__file__).with_suffix(".binpb").read_bytes()).file:
    POOL.Add(_file)


@dataclass(frozen=True, slots=True)
class Method:
    path: str
    """Path as gRPC calls it: `/package.Service/Method`."""
    request: Message
    """Class of its requests."""
    response: Message
    """Class of its responses."""


def message_class(name: str) -> Message:
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(name))


def methods_of(service: str) -> dict[str, Method]:
    """Return the methods of a service by name; the service has its full name."""
    return {
        method.name: Method(
            f"/{service}/{method.name}",
            message_factory.GetMessageClass(method.input_type),
            message_factory.GetMessageClass(method.output_type),
        )
        for method in POOL.FindServiceByName(service).methods
    }


RECOGNITION = "nvidia.riva.asr.RivaSpeechRecognition"
SYNTHESIS = "nvidia.riva.tts.RivaSpeechSynthesis"
HEALTH = "grpc.health.v1.Health"
ENCODINGS: dict[int, str] = {
    value.number: value.name
    for value in POOL.FindEnumTypeByName("nvidia.riva.AudioEncoding").values
}
"""Names of the encodings of audio, by number."""
