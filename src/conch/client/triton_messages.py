"""Requests and answers in the classes of tritonclient, and its errors as Conch's.

The modules of tritonclient are slow to import, so they are imported with the first request.
"""

import io
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from conch.client import tensors
from conch.client.endpoint import Endpoint
from conch.wire import foreign
from conch.wire.errors import AudioError, ConchError, from_wire
from conch.wire.stream_place import StreamPlace

Result: TypeAlias = NDArray[Any] | None
"""The tensor RESULT of an answer."""

GRPC_LIMIT = 2**31 - 2**16
"""Largest number of bytes of tensors in a gRPC message: a signed 32-bit length, minus headers."""

DEADLINE_MARGIN_S = 1.0
"""Seconds that a gRPC client waits beyond the request's deadline, so that the server is first to
end the request. Triton 2.51 may crash, or keep the request for ever, if a cancellation meets the
end of an answer."""

LENGTH_BYTES = 4
"""Bytes of the length that the KServe protocol puts in front of a BYTES element."""
_RAW_CONTENT = bytes([7 << 3 | 2])
"""Tag of the field `raw_input_contents`: its number, and that its length follows."""
_PARAMETERS = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}


def http_body(request: tensors.Request) -> tuple[bytes, int | None]:
    """Return the body of a request over HTTP, and the length of the JSON in front of its tensors.

    The length is None if the body has no tensors.
    """
    import tritonclient.http as tritonhttp
    from tritonclient.utils import np_to_triton_dtype

    inputs = []
    for name, tensor in request.inputs.items():
        item = tritonhttp.InferInput(name, list(tensor.shape), np_to_triton_dtype(tensor.dtype))
        inputs.append(item.set_data_from_numpy(tensor))
    body: tuple[bytes, int | None] = tritonhttp.InferenceServerClient.generate_request_body(
        inputs,
        outputs=[tritonhttp.InferRequestedOutput("RESULT")],
        parameters=dict(request.parameters),
        request_id=request.request_id,
        **_sequence(request.place),
    )
    return body


def http_result(body: bytes, json_bytes: str | None) -> Result:
    """Return RESULT of a body that begins with JSON of this length; None if it has no tensors."""
    import tritonclient.http as tritonhttp

    found = tritonhttp.InferenceServerClient.parse_response_body(body, header_length=json_bytes)
    result: Result = found.as_numpy("RESULT")
    return result


def grpc_result(answer: Any) -> Result:
    """Return RESULT of a message `ModelInferResponse`."""
    import tritonclient.grpc as tritongrpc

    result: Result = tritongrpc.InferResult(answer).as_numpy("RESULT")
    return result


def grpc_bytes(request: tensors.Request) -> bytes:
    """Return a request as the bytes of a protobuf message, `ModelInferRequest`.

    Protobuf and gRPC copy the content of a message several times, and a file may have hundreds of
    megabytes. So only the rest is written by protobuf, and the tensors follow it: the
    fields of a message may come in any order (protobuf.dev, "Encoding").

    Raises:
        AudioError: more audio than one gRPC message holds.
    """
    from tritonclient.grpc import service_pb2
    from tritonclient.utils import np_to_triton_dtype

    if (size := size_of(request)) > GRPC_LIMIT:
        raise AudioError(
            f"{size / 1e9:.1f} GB of audio do not fit into one gRPC message (2.1 GB); "
            "send a compressed file, or use HTTP"
        )
    head = service_pb2.ModelInferRequest(model_name=request.model, id=request.request_id)
    head.outputs.add(name="RESULT")
    for name, tensor in request.inputs.items():
        kind = np_to_triton_dtype(tensor.dtype)
        head.inputs.add(name=name, datatype=kind, shape=tensor.shape)
    for option, value in {**_sequence(request.place), **request.parameters}.items():
        setattr(head.parameters[option], _PARAMETERS[type(value)], value)
    message = io.BytesIO()
    message.write(head.SerializeToString())
    for tensor in request.inputs.values():
        lengths = tensor.size * LENGTH_BYTES if tensor.dtype == np.object_ else 0
        message.write(_RAW_CONTENT + _varint(_size(tensor) + lengths))
        for piece in _content(tensor):
            message.write(piece)
    return message.getvalue()  # without a copy


def _sequence(place: StreamPlace | None) -> dict[str, Any]:
    """Return the parameters of a chunk of a live stream; none for a recording."""
    if place is None:
        return {}
    return {
        "sequence_id": place.stream_id,
        "sequence_start": place.starts,
        "sequence_end": place.ends,
    }


def _content(tensor: NDArray[Any]) -> Iterator[Any]:
    """Yield the bytes of a tensor in pieces, without a copy."""
    if tensor.dtype != np.object_:
        yield np.ascontiguousarray(tensor).data.cast("B")
        return
    for item in tensor.ravel():
        yield len(item).to_bytes(LENGTH_BYTES, "little")
        yield from item.pieces() if isinstance(item, tensors.StoredFile) else [item]


def _varint(number: int) -> bytes:
    """Return a number as protobuf writes lengths: seven bits a byte, the lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def size_of(request: tensors.Request) -> int:
    """Return the bytes of a request's tensors."""
    return sum(_size(tensor) for tensor in request.inputs.values())


def _size(tensor: NDArray[Any]) -> int:
    if tensor.dtype == np.object_:
        return sum(len(item) for item in tensor.ravel())
    return tensor.nbytes


def grpc_failure(failure: Any, request: tensors.Request, endpoint: Endpoint) -> ConchError:
    """Return the exception for a failed gRPC call; see `tensors.error`.

    Args:
        failure: A `grpc.RpcError` of a call.
        request: What was sent.
        endpoint: Where to.
    """
    code, message = str(failure.code()), failure.details() or ""
    if code == "StatusCode.DEADLINE_EXCEEDED":
        return tensors.no_answer(request.timeout_s, str(endpoint))
    if foreign.GRPC_BROKEN_OFF in message and from_wire(message) is None:
        return tensors.unreachable(str(endpoint), f"the answer is broken off: {message}")
    is_lost = any(words in message for words in foreign.GRPC_LOST)
    if code == "StatusCode.UNAVAILABLE" and is_lost and from_wire(message) is None:
        return tensors.unreachable(str(endpoint), message)
    return tensors.error(code, message, str(endpoint))
