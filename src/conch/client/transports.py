"""The four transports of a `Request`: HTTP and gRPC, each blocking and asyncio.

A transport sends one request and returns the tensor RESULT. `conch.client.tensors` interprets it.
The modules of tritonclient are slow to import, so they are imported with the first transport.
"""

import asyncio
import threading
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from conch.client import tensors
from conch.client.address import Address
from conch.client.timeouts import timeout
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

CONNECT_TIMEOUT_S = 10.0
"""Seconds to open a TCP connection, so that a host that drops packets is an error soon."""

UNCOMPRESSED = {"Accept-Encoding": "identity"}
"""Headers against compression: aiohttp asks for gzip, and Triton then compresses even short
answers. Send a copy, because tritonclient adds to the mapping."""


class Transport(Protocol):
    """Sends requests one after the other."""

    def infer(self, request: tensors.Request) -> Result:
        """Send a request and return the tensor RESULT.

        Raises:
            ConchError: the server cannot be reached, is late, or answered with an error.
        """
        ...

    def is_ready(self, model: str, timeout_s: float) -> bool:
        """Return whether the server takes requests for a model.

        Raises:
            ServerError: the server cannot be reached.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class AsyncTransport(Protocol):
    """Sends any number of requests at the same time."""

    async def infer(self, request: tensors.Request) -> Result:
        """Send a request and return the tensor RESULT; see `Transport.infer`."""
        ...

    async def is_ready(self, model: str, timeout_s: float) -> bool:
        """Return whether the server takes requests for a model; see `Transport.is_ready`."""
        ...

    async def close(self) -> None:
        """Close the connections; requests in flight fail."""
        ...


def connect(address: Address) -> Transport:
    """Return the blocking transport for an address, without sending anything."""
    return GrpcTransport(address) if address.is_grpc else HttpTransport(address)


def connect_async(address: Address, connections: int) -> AsyncTransport:
    """Return the asyncio transport for an address. Call it inside the event loop."""
    if address.is_grpc:
        return AsyncGrpcTransport(address)
    return AsyncHttpTransport(address, connections)


class HttpTransport:
    """Blocking HTTP. tritonclient uses gevent here, whose sockets belong to one thread."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._client: Any = None
        self._thread = 0

    def infer(self, request: tensors.Request) -> Result:
        import gevent  # type: ignore[import-untyped]
        import tritonclient.http as tritonhttp
        from geventhttpclient.response import HTTPParseError
        from tritonclient.utils import InferenceServerException

        client = self._connected(tritonhttp)
        try:
            with gevent.Timeout(request.timeout_s):
                return result_of(client.infer(**_arguments(tritonhttp, request)))
        except InferenceServerException as failure:
            raise tensors.error(failure.status(), failure.message(), str(self._address)) from None
        except BaseException as failure:
            # The connection may be in the middle of an answer.
            self.close()
            if isinstance(failure, gevent.Timeout):
                raise tensors.no_answer(request.timeout_s, str(self._address)) from None
            if isinstance(failure, OSError | HTTPParseError):
                raise tensors.unreachable(str(self._address), failure) from None
            raise

    def is_ready(self, model: str, timeout_s: float) -> bool:
        import gevent
        import tritonclient.http as tritonhttp

        client = self._connected(tritonhttp)
        try:
            with gevent.Timeout(timeout_s):
                return bool(client.is_model_ready(model))
        except (gevent.Timeout, OSError) as failure:
            self.close()
            raise tensors.unreachable(str(self._address), failure) from None

    def _connected(self, tritonhttp: Any) -> Any:
        if self._client is None:
            self._thread = threading.get_ident()
            self._client = tritonhttp.InferenceServerClient(
                self._address.target,
                ssl=self._address.is_secure,
                connection_timeout=CONNECT_TIMEOUT_S,
                network_timeout=None,  # `infer` has a time-out for all of the request.
            )
        if self._thread != threading.get_ident():
            raise RuntimeError("a Client over HTTP belongs to one thread; make one for each thread")
        return self._client

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


class GrpcTransport:
    """Blocking gRPC; safe to share between threads."""

    def __init__(self, address: Address) -> None:
        import tritonclient.grpc as tritongrpc

        self._address = address
        self._client = tritongrpc.InferenceServerClient(address.target, ssl=address.is_secure)

    def infer(self, request: tensors.Request) -> Result:
        import tritonclient.grpc as tritongrpc
        from tritonclient.utils import InferenceServerException

        arguments = grpc_arguments(tritongrpc, request)
        try:
            return result_of(self._client.infer(**arguments))
        except InferenceServerException as failure:
            raise grpc_error(failure.status(), failure.message(), request, self._address) from None

    def is_ready(self, model: str, timeout_s: float) -> bool:
        from tritonclient.utils import InferenceServerException

        try:
            return bool(self._client.is_model_ready(model, client_timeout=timeout_s))
        except InferenceServerException as failure:
            raise tensors.unreachable(str(self._address), failure.message()) from None

    def close(self) -> None:
        self._client.close()


class AsyncHttpTransport:
    """HTTP on asyncio: a pool of connections, each with one request at a time."""

    def __init__(self, address: Address, connections: int) -> None:
        import tritonclient.http.aio as tritonhttp

        self._address = address
        self._client = tritonhttp.InferenceServerClient(
            address.target,
            ssl=address.is_secure,
            ssl_context=True,  # aiohttp's word for "verify certificates"; None is deprecated.
            conn_limit=connections,
            conn_timeout=None,  # `infer` has a time-out for all of the request.
        )

    async def infer(self, request: tensors.Request) -> Result:
        import aiohttp
        import tritonclient.http.aio as tritonhttp
        from tritonclient.utils import InferenceServerException

        try:
            async with timeout(request.timeout_s):
                arguments = _arguments(tritonhttp, request)
                result = await self._client.infer(**arguments, headers=dict(UNCOMPRESSED))
            return result_of(result)
        except InferenceServerException as failure:
            raise tensors.error(failure.status(), failure.message(), str(self._address)) from None
        except asyncio.TimeoutError:
            raise tensors.no_answer(request.timeout_s, str(self._address)) from None
        except (OSError, aiohttp.ClientError) as failure:
            raise tensors.unreachable(str(self._address), failure) from None

    async def is_ready(self, model: str, timeout_s: float) -> bool:
        import aiohttp

        try:
            async with timeout(timeout_s):
                return bool(await self._client.is_model_ready(model))
        except (OSError, asyncio.TimeoutError, aiohttp.ClientError) as failure:
            raise tensors.unreachable(str(self._address), failure) from None

    async def close(self) -> None:
        await self._client.close()


class AsyncGrpcTransport:
    """gRPC on asyncio: any number of requests on one connection."""

    def __init__(self, address: Address) -> None:
        import tritonclient.grpc.aio as tritongrpc

        self._address = address
        self._client = tritongrpc.InferenceServerClient(address.target, ssl=address.is_secure)

    async def infer(self, request: tensors.Request) -> Result:
        import tritonclient.grpc.aio as tritongrpc
        from tritonclient.utils import InferenceServerException

        arguments = grpc_arguments(tritongrpc, request)
        try:
            return result_of(await self._client.infer(**arguments))
        except InferenceServerException as failure:
            raise grpc_error(failure.status(), failure.message(), request, self._address) from None

    async def is_ready(self, model: str, timeout_s: float) -> bool:
        from tritonclient.utils import InferenceServerException

        try:
            return bool(await self._client.is_model_ready(model, client_timeout=timeout_s))
        except InferenceServerException as failure:
            raise tensors.unreachable(str(self._address), failure.message()) from None

    async def close(self) -> None:
        await self._client.close()


def result_of(answer: Any) -> Result:
    """Return the tensor RESULT of an answer of any tritonclient module."""
    result: Result = answer.as_numpy("RESULT")
    return result


def _arguments(module: Any, request: tensors.Request) -> dict[str, Any]:
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
    return {**_arguments(module, request), "client_timeout": client_timeout}


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
    code: str | None, message: str, request: tensors.Request, address: Address
) -> ConchError:
    """Return the exception for a gRPC status; see `tensors.error`."""
    if code == "StatusCode.DEADLINE_EXCEEDED":
        return tensors.no_answer(request.timeout_s, str(address))
    is_lost = any(words in message for words in GRPC_LOST)
    if code == "StatusCode.UNAVAILABLE" and is_lost and from_wire(message) is None:
        return tensors.unreachable(str(address), message)
    return tensors.error(code, message, str(address))
