"""The messages and methods of Riva's protocol, read from the `.proto` files beside this module.

They are in a pool of their own: a program may import NVIDIA's client too, whose modules register
the same names.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

Message: TypeAlias = Any
"""A message: protobuf makes its classes when this module is imported."""

_FILES = ("common.proto", "asr.proto", "tts.proto", "health.proto")
_TOKEN = re.compile(r'"[^"]*"|[\w.]+|[^\s\w]')
_COMMENT = re.compile(r"//.*")
_SCALARS = {
    name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}")
    for name in ("string", "bytes", "bool", "int32", "float")
}


def file_of(name: str, text: str) -> FileDescriptorProto:
    """Return what a `.proto` file says. It knows of the language what these files use."""
    found = FileDescriptorProto(name=name, syntax="proto3")
    tokens = iter(_TOKEN.findall(_COMMENT.sub("", text)))
    for token in tokens:
        match token:
            case "package":
                found.package = next(tokens)
            case "import":
                found.dependency.append(next(tokens).strip('"'))
            case "message":
                _read_message(found.message_type.add(name=next(tokens)), tokens)
            case "enum":
                _read_enum(found.enum_type.add(name=next(tokens)), tokens)
            case "service":
                _read_service(found.service.add(name=next(tokens)), tokens)
    return found


def _read_message(message: Any, tokens: Iterator[str]) -> None:
    next(tokens)
    while (token := next(tokens)) != "}":
        match token:
            case "message":
                _read_message(message.nested_type.add(name=next(tokens)), tokens)
            case "enum":
                _read_enum(message.enum_type.add(name=next(tokens)), tokens)
            case "oneof":
                message.oneof_decl.add(name=next(tokens))
                next(tokens)
                while (token := next(tokens)) != "}":
                    _add_field(message, token, tokens).oneof_index = len(message.oneof_decl) - 1
            case _:
                _add_field(message, token, tokens)
    # Those that protoc makes of `optional` come behind all others.
    for field in message.field:
        if field.proto3_optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")


def _add_field(message: Any, kind: str, tokens: Iterator[str]) -> Any:
    field = message.field.add(label=FieldDescriptorProto.LABEL_OPTIONAL)
    if kind in ("repeated", "optional"):
        field.proto3_optional = kind == "optional"
        field.label = getattr(FieldDescriptorProto, f"LABEL_{kind.upper()}")
        kind = next(tokens)
    if kind == "map":
        _, key, _, value, _ = (next(tokens) for _ in range(5))
    field.name, _, number, _ = (next(tokens) for _ in range(4))
    field.number = int(number)
    if kind == "map":
        kind = "".join(part.title() for part in field.name.split("_")) + "Entry"
        entry = message.nested_type.add(name=kind)
        entry.options.map_entry = True
        field.label = FieldDescriptorProto.LABEL_REPEATED
        for place, of_entry in enumerate((key, value), 1):
            _add_field(entry, of_entry, iter((("key", "value")[place - 1], "=", str(place), ";")))
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type_name = kind  # the pool finds out whether it is a message
    return field


def _read_enum(enum: Any, tokens: Iterator[str]) -> None:
    next(tokens)
    while (name := next(tokens)) != "}":
        _, number, _ = (next(tokens) for _ in range(3))
        enum.value.add(name=name, number=int(number))


def _read_service(service: Any, tokens: Iterator[str]) -> None:
    next(tokens)
    while next(tokens) != "}":
        method = service.method.add(name=next(tokens))
        method.input_type, method.client_streaming = _stream_of(tokens)
        next(tokens)
        method.output_type, method.server_streaming = _stream_of(tokens)
        next(tokens)


def _stream_of(tokens: Iterator[str]) -> tuple[str, bool]:
    _, kind = next(tokens), next(tokens)
    is_stream = kind == "stream"
    if is_stream:
        kind = next(tokens)
    next(tokens)
    return kind, is_stream


POOL = DescriptorPool()
for _name in _FILES:
    _text = (Path(__file__).parent / _name).read_text()
    POOL.AddSerializedFile(file_of(_name, _text).SerializeToString())


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service."""

    path: str
    """Path as gRPC calls it: `/package.Service/Method`."""
    request: Message
    """Class of its requests."""
    response: Message
    """Class of its responses."""


def message_class(name: str) -> Message:
    """Return the class of a message, by its full name."""
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
