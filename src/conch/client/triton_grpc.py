"""The transport of a `Request` to a Triton over gRPC (KServe v2).

Requests are bytes already: see `grpc_bytes`. tritonclient has the messages; its own clients would
copy them, and their `start_stream` cannot say that no further request follows.
"""

import asyncio
import io
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, nullcontext, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

import numpy as np
from numpy.typing import NDArray

from conch.client import tensors
from conch.client.aio import timeout
from conch.client.endpoint import Address, Endpoint
from conch.client.speech import Speech, speech_of
from conch.wire import foreign
from conch.wire.errors import AudioError, ConchError, from_wire
from conch.wire.hosts import is_here
from conch.wire.result import Transcript

LARGE_BYTES = 1 << 20
"""Size above which a request is not copied on the event loop, nor kept twice."""
SEND_S = 60.0
"""Longest time for which a large request keeps others from being sent, in seconds: a server that
hangs reads nothing."""
MAX_BACKOFF_MS = 2000
"""Longest pause between two attempts to reach a server; gRPC's own is two minutes."""
GRACE_S = 0.1
"""Seconds that a streamed answer may take to end by itself before it is cancelled: see
DEADLINE_MARGIN_S. Code that cancels a task waiting for the next part has to wait for it first."""

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

TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")
"""Place of the present task in a trace (W3C Trace Context); empty for none. Requests over gRPC
carry it, and Triton puts their spans there."""

_INFER = "/inference.GRPCInferenceService/ModelInfer"
_STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"

PROXY_VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy")
"""Variables that gRPC reads; the first that is set holds, for connections without TLS too."""
PROXY_EXCEPTIONS = ("no_grpc_proxy", "no_proxy")


class GrpcTransport(tensors.TritonTransport):
    """gRPC: any number of requests on one connection, and one more for each streamed answer."""

    def __init__(self, endpoint: Endpoint, uploads: int | None = None) -> None:
        import grpc  # type: ignore[import-untyped]
        from tritonclient.grpc import service_pb2, service_pb2_grpc

        self._endpoint = endpoint
        self._turns = nullcontext() if uploads is None else asyncio.Semaphore(uploads)
        self._channel = channel(grpc.aio, endpoint)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        answer = service_pb2.ModelInferResponse.FromString
        self._infer = self._channel.unary_unary(_INFER, response_deserializer=answer)
        # gRPC keeps the request of a plain call until the answer comes. That of a call whose
        # requests come from an iterator is freed once it is sent.
        self._upload = self._channel.stream_unary(_INFER, response_deserializer=answer)

    async def result(self, request: tensors.Request) -> NDArray[Any] | None:
        import grpc

        settings = self._settings(request)
        try:
            if size_of(request) > LARGE_BYTES:
                answer = await (await self._sent(partial(self._upload, **settings), request))
            else:
                answer = await self._infer(grpc_bytes(request), **settings)
        except grpc.RpcError as failure:
            raise grpc_failure(failure, request, self._endpoint) from None
        return grpc_result(answer)

    async def stream(self, request: tensors.Request) -> AsyncGenerator[Transcript, None]:
        async with aclosing(self._answers(request)) as answers:
            async for answer in answers:
                yield (await tensors.transcripts(grpc_result(answer), 1))[0]

    async def speak(self, request: tensors.Request) -> AsyncGenerator[Speech, None]:
        import tritonclient.grpc as tritongrpc

        async with aclosing(self._answers(request)) as answers:
            async for answer in answers:
                yield speech_of(tritongrpc.InferResult(answer).as_numpy)

    async def _answers(self, request: tensors.Request) -> AsyncGenerator[Any, None]:
        """Yield the messages `ModelInferResponse` of an answer in parts, as they arrive."""
        import grpc
        from tritonclient.grpc import service_pb2

        settings = self._settings(request)
        part = service_pb2.ModelStreamInferResponse.FromString
        async with channel(grpc.aio, self._endpoint) as own:
            give_up_at = time.monotonic() + settings["timeout"]
            start = partial(own.stream_stream(_STREAM, response_deserializer=part), **settings)
            answers = await self._sent(start, request)
            error: ConchError | None = None
            try:
                async for answer in answers:
                    if answer.error_message:
                        # Raise it after the end of the answer, so that nothing is cancelled.
                        error = tensors.error(None, answer.error_message, _where(self._endpoint))
                    else:
                        yield answer.infer_response
            except grpc.RpcError as failure:
                # A call whose time is over before it is sent fails with INTERNAL.
                if time.monotonic() >= give_up_at:
                    raise tensors.no_answer(request.timeout_s, _where(self._endpoint)) from None
                raise grpc_failure(failure, request, self._endpoint) from None
            except GeneratorExit:
                with suppress(asyncio.TimeoutError, grpc.RpcError):
                    async with timeout(GRACE_S):
                        async for _ in answers:
                            pass
                raise
            finally:
                # This does nothing if the answer has ended.
                answers.cancel()
            if error is not None:
                raise error

    async def _sent(
        self, start: Callable[[AsyncIterator[bytes]], Any], request: tensors.Request
    ) -> Any:
        """Start a call with one message and return the call once the message is sent.

        The bytes are made in a thread, and before the call: it takes an error in its iterator for a
        cancellation. They are in memory until they are sent, twice, as gRPC has a copy of its own.
        So large requests take turns, for SEND_S at most. Raise an AudioError for more audio than
        one gRPC message holds.
        """
        async with self._turns if size_of(request) > LARGE_BYTES else nullcontext():
            messages = [await asyncio.to_thread(grpc_bytes, request)]
            is_sent = asyncio.Event()

            async def once() -> AsyncIterator[bytes]:
                yield messages.pop()
                is_sent.set()

            call = start(once())
            call.add_done_callback(lambda _: is_sent.set())
            try:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(is_sent.wait(), SEND_S)
            except asyncio.CancelledError:
                call.cancel()
                raise
        return call

    async def is_ready(self, model: str, timeout_s: float) -> bool:
        import grpc
        from tritonclient.grpc import service_pb2

        question = service_pb2.ModelReadyRequest(name=model)
        settings = {"timeout": timeout_s, "metadata": metadata(self._endpoint)}
        try:
            return bool((await self._stub.ModelReady(question, **settings)).ready)
        except grpc.RpcError as failure:
            raise tensors.unreachable(_where(self._endpoint), failure.details()) from None

    async def close(self) -> None:
        await self._channel.close()

    def _settings(self, request: tensors.Request) -> dict[str, Any]:
        timeout_s = request.timeout_s + DEADLINE_MARGIN_S
        return {"timeout": timeout_s, "metadata": metadata(self._endpoint, request)}


def channel(module: Any, endpoint: Endpoint) -> Any:
    """Return a new connection of `grpc` or `grpc.aio` without a limit of the message size."""
    import grpc

    options = channel_options(endpoint.address)
    target = endpoint.address.target
    if endpoint.address.is_secure:
        trusted = Path(endpoint.ca_cert).read_bytes() if endpoint.ca_cert else None
        return module.secure_channel(target, grpc.ssl_channel_credentials(trusted), options)
    return module.insecure_channel(target, options)


def channel_options(address: Address) -> list[tuple[str, int]]:
    """Return gRPC's settings of a connection: no proxy stands between programs of one machine."""
    lengths = ("grpc.max_send_message_length", "grpc.max_receive_message_length")
    options = [("grpc.max_reconnect_backoff_ms", MAX_BACKOFF_MS), *((name, -1) for name in lengths)]
    return [*options, ("grpc.enable_http_proxy", int(not is_here(address.host)))]


def _where(endpoint: Endpoint) -> str:
    """Return the address of a server for errors, with the proxy in front of it."""
    host = endpoint.address.host
    proxy = grpc_proxy(host)
    return f"{endpoint} (by {proxy}; no_proxy={host} goes without it)" if proxy else str(endpoint)


def metadata(
    endpoint: Endpoint, request: tensors.Request | None = None
) -> tuple[tuple[str, str], ...]:
    """Return the headers of a request, and its place in a trace; without one, of any question."""
    traceparent = TRACEPARENT.get()
    return (
        *endpoint.headers.items(),
        *(request.headers.items() if request else ()),
        *([("traceparent", traceparent)] if traceparent else ()),
    )


def grpc_result(answer: Any) -> NDArray[Any] | None:
    """Return RESULT of a message `ModelInferResponse`."""
    import tritonclient.grpc as tritongrpc

    result: NDArray[Any] | None = tritongrpc.InferResult(answer).as_numpy("RESULT")
    return result


def grpc_bytes(request: tensors.Request) -> bytes:
    """Return a request as the bytes of a protobuf message, `ModelInferRequest`.

    Protobuf and gRPC copy the content of a message several times, and a file may have hundreds of
    megabytes. So only the rest is written by protobuf, and the tensors follow it: the fields of a
    message may come in any order (protobuf.dev, "Encoding"). Raise an AudioError for more audio
    than one gRPC message holds.
    """
    from tritonclient.grpc import service_pb2
    from tritonclient.utils import np_to_triton_dtype

    if (size := size_of(request)) > GRPC_LIMIT:
        raise AudioError(
            f"{size / 1e9:.1f} GB of audio do not fit into one gRPC message (2.1 GB); "
            "send a compressed file, or use HTTP"
        )
    head = service_pb2.ModelInferRequest(model_name=request.model, id=request.request_id)
    for name in request.outputs:
        head.outputs.add(name=name)
    for name, tensor in request.inputs.items():
        datatype = np_to_triton_dtype(tensor.dtype)
        head.inputs.add(name=name, datatype=datatype, shape=tensor.shape)
    for option, value in {**request.sequence, **request.parameters}.items():
        setattr(head.parameters[option], _PARAMETERS[type(value)], value)
    message = io.BytesIO()
    message.write(head.SerializeToString())
    for tensor in request.inputs.values():
        lengths = tensor.size * LENGTH_BYTES if tensor.dtype == np.object_ else 0
        message.write(_RAW_CONTENT + _varint(_size(tensor) + lengths))
        for piece in _content(tensor):
            message.write(piece)
    return message.getvalue()  # without a copy


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
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def size_of(request: tensors.Request) -> int:
    """Return the bytes of a request's tensors."""
    return sum(_size(tensor) for tensor in request.inputs.values())


def _size(tensor: NDArray[Any]) -> int:
    if tensor.dtype == np.object_:
        return sum(len(item) for item in tensor.ravel())
    return tensor.nbytes


def grpc_failure(failure: Any, request: tensors.Request, endpoint: Endpoint) -> ConchError:
    """Return the exception for a `grpc.RpcError` of a call; see `tensors.error`."""
    code, message = str(failure.code()), failure.details() or ""
    if code == "StatusCode.DEADLINE_EXCEEDED":
        return tensors.no_answer(request.timeout_s, _where(endpoint))
    if from_wire(message) is None:
        if foreign.GRPC_BROKEN_OFF in message:
            return tensors.unreachable(_where(endpoint), f"the answer is broken off: {message}")
        is_lost = any(words in message for words in foreign.GRPC_LOST)
        if code == "StatusCode.UNAVAILABLE" and is_lost:
            # A short request that could not be written met a connection that was broken before.
            had_request = "sendmsg" not in message or size_of(request) > LARGE_BYTES
            return tensors.unreachable(_where(endpoint), message, had_request=had_request)
    return tensors.error(code, message, _where(endpoint))


def grpc_proxy(host: str) -> str:
    """Return the proxy in front of a host, in words and without its password; empty for none."""
    variable = next((name for name in PROXY_VARIABLES if name in os.environ), "")
    proxy = urlsplit(os.environ.get(variable, ""))
    without = next((os.environ[name] for name in PROXY_EXCEPTIONS if name in os.environ), "")
    if proxy.scheme != "http" or is_here(host) or proxy_bypass_environment(host, {"no": without}):
        return ""
    return f"the proxy {proxy.netloc.rpartition('@')[2]} of {variable}"
