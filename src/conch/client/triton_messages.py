"""Requests and answers in the classes of tritonclient, and its errors as Conch's.

The modules of tritonclient are slow to import, so they are imported with the first request.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from conch.client import tensors
from conch.client.endpoint import Endpoint
from conch.wire.errors import AudioError, ConchError, from_wire

Result: TypeAlias = NDArray[Any] | None

GRPC_LIMIT = 2**31 - 2**16
"""Largest number of bytes of tensors in a gRPC message: a signed 32-bit length, minus headers.
tritonclient raises the limit of its channels from 4 MB to this."""

GRPC_LOST = (
    "failed to connect",
    "errors resolving",
    "DNS resolution failed",
    "Socket closed",
    "Connection reset",
    "Broken pipe",
    "recvmsg",
    "sendmsg",
    "GOAWAY",
    "Stream removed",
    "Endpoint clos",
    "keepalive",
    "ping timeout",
)
"""Messages of gRPC itself with the status UNAVAILABLE. A Triton that refuses a request has the same
status, so that only the message tells the two cases apart."""

DEADLINE_MARGIN_S = 1.0
"""Seconds that a gRPC client waits beyond the request's deadline, so that the server is first to
end the request. Triton 2.51 may crash, or keep the request for ever, if a cancellation meets the
end of an answer."""


def result_of(answer: Any) -> Result:
    """Return the tensor RESULT of an answer of any tritonclient module."""
    result: Result = answer.as_numpy("RESULT")
    return result


def arguments_of(module: Any, request: tensors.Request) -> dict[str, Any]:
    """Return the arguments of `infer` in the classes of a tritonclient module."""
    from tritonclient.utils import np_to_triton_dtype

    inputs = []
    for name, tensor in request.inputs.items():
        item = module.InferInput(name, list(tensor.shape), np_to_triton_dtype(tensor.dtype))
        inputs.append(item.set_data_from_numpy(tensor))
    place = request.place
    sequence = (
        {
            "sequence_id": place.stream_id,
            "sequence_start": place.starts,
            "sequence_end": place.ends,
        }
        if place
        else {}
    )
    return {
        "model_name": request.model,
        "inputs": inputs,
        "outputs": [module.InferRequestedOutput("RESULT")],
        "parameters": dict(request.parameters),
        "request_id": request.request_id,
        **sequence,
    }


def grpc_arguments(module: Any, request: tensors.Request) -> dict[str, Any]:
    """Return the arguments of `infer` of a gRPC module of tritonclient.

    Raises:
        AudioError: more audio than one gRPC message holds.
    """
    _check_size(request)
    client_timeout = request.timeout_s + DEADLINE_MARGIN_S
    return {**arguments_of(module, request), "client_timeout": client_timeout}


def grpc_message(request: tensors.Request) -> Any:
    """Return a request without a `place` as a protobuf message of tritonclient.

    Raises:
        AudioError: more audio than one gRPC message holds.
    """
    from tritonclient.grpc import service_pb2
    from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

    _check_size(request)
    message = service_pb2.ModelInferRequest(model_name=request.model, id=request.request_id)
    message.outputs.add(name="RESULT")
    for name, tensor in request.inputs.items():
        kind = np_to_triton_dtype(tensor.dtype)
        message.inputs.add(name=name, datatype=kind, shape=tensor.shape)
        content = serialize_byte_tensor(tensor).item() if kind == "BYTES" else tensor.tobytes()
        message.raw_input_contents.append(content)
    for option, value in request.parameters.items():
        kinds = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}
        setattr(message.parameters[option], kinds[type(value)], value)
    return message


def _check_size(request: tensors.Request) -> None:
    size = sum(_size(tensor) for tensor in request.inputs.values())
    if size > GRPC_LIMIT:
        raise AudioError(
            f"{size / 1e9:.1f} GB of audio do not fit into one gRPC message (2.1 GB); "
            "send a compressed file, or use HTTP"
        )


def _size(tensor: NDArray[Any]) -> int:
    if tensor.dtype == np.object_:
        return sum(len(item) for item in tensor.ravel())
    return tensor.nbytes


def grpc_error(
    code: str | None, message: str, request: tensors.Request, endpoint: Endpoint
) -> ConchError:
    """Return the exception for a gRPC status; see `tensors.error`."""
    if code == "StatusCode.DEADLINE_EXCEEDED":
        return tensors.no_answer(request.timeout_s, str(endpoint))
    is_lost = any(words in message for words in GRPC_LOST)
    if code == "StatusCode.UNAVAILABLE" and is_lost and from_wire(message) is None:
        return tensors.unreachable(str(endpoint), message)
    return tensors.error(code, message, str(endpoint))
