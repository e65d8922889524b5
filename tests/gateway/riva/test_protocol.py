"""The descriptors of Riva's protocol against those in NVIDIA's own client."""

import re
from importlib import resources

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc
from riva.client.proto import (
    health_pb2,
    riva_asr_pb2,
    riva_audio_pb2,
    riva_common_pb2,
    riva_tts_pb2,
)

from conch.gateway.riva.protocol import ENCODINGS, POOL

FILES = [
    module.DESCRIPTOR
    for module in (health_pb2, riva_asr_pb2, riva_audio_pb2, riva_common_pb2, riva_tts_pb2)
]
THEIRS = {
    kind: {
        item.full_name: item
        for file in FILES
        for item in getattr(
            file, f"{kind}_types_by_name", getattr(file, f"{kind}s_by_name", {})
        ).values()
    }
    for kind in ("message", "enum", "service")
}
PROTOS = {
    "message": descriptor_pb2.DescriptorProto,
    "enum": descriptor_pb2.EnumDescriptorProto,
    "service": descriptor_pb2.ServiceDescriptorProto,
}


def proto_of(kind: str, descriptor):
    """Return what a descriptor says, without options, which are nothing on the wire."""
    result = PROTOS[kind]()
    descriptor.CopyToProto(result)
    for method in getattr(result, "method", ()):
        method.ClearField("options")
    return result


JSON_NAME = re.compile(r'\n *json_name: "\w+"')
"""What the compiler adds to each field: it follows from the field's name."""
OURS = {
    "message": POOL.FindMessageTypeByName,
    "enum": POOL.FindEnumTypeByName,
    "service": POOL.FindServiceByName,
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, by_name in THEIRS.items() for name in by_name]
)
def test_it_is_that_of_the_client(kind: str, name: str):
    ours, theirs = (proto_of(kind, item) for item in (OURS[kind](name), THEIRS[kind][name]))
    assert JSON_NAME.sub("", str(ours)) == str(theirs)


def test_all_kinds_are_compared():
    assert {kind: len(by_name) for kind, by_name in THEIRS.items()} == {
        "message": 26,
        "enum": 1,
        "service": 3,
    }


def test_the_compiled_files_are_those_beside_them(tmp_path):
    folder, compiled = resources.files("conch.gateway.riva"), tmp_path / "protocol.binpb"
    names = [item.name for item in folder.iterdir() if item.name.endswith(".proto")]
    command = ["protoc", f"-I{folder}", f"--descriptor_set_out={compiled}", *sorted(names)]
    assert protoc.main(command) == 0
    assert compiled.read_bytes() == (folder / compiled.name).read_bytes()


def test_encodings_have_their_numbers():
    theirs = {number: name for name, number in riva_audio_pb2.AudioEncoding.items()}
    assert theirs == ENCODINGS
