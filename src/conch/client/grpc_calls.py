"""The gRPC calls of Triton's protocol (KServe v2) that Conch makes.

Requests are bytes already: see `grpc_bytes`. tritonclient has the messages; its own clients would
copy them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple

from conch.client import tensors
from conch.client.endpoint import Endpoint
from conch.client.triton_messages import grpc_bytes, size_of

LARGE_BYTES = 1 << 20
"""Size of a request from which on it is not copied on the event loop, nor kept twice."""
SEND_S = 60.0
"""Longest time for which a large request keeps others from being sent, in seconds: a server that
hangs reads nothing."""
MAX_BACKOFF_MS = 2000
"""Longest pause between two attempts to reach a server, in milliseconds."""

TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")
"""Place in a trace of what the present task does (W3C Trace Context); empty for none.

Requests over gRPC carry it, and Triton puts their spans there.
"""

_SERVICE = "/inference.GRPCInferenceService"


def channel(module: Any, endpoint: Endpoint) -> Any:
    """Return a new connection without a limit of the message size.

    Args:
        module: `grpc` or `grpc.aio`.
        endpoint: Where to.
    """
    import grpc  # type: ignore[import-untyped]

    lengths = ("grpc.max_send_message_length", "grpc.max_receive_message_length")
    options = [(name, -1) for name in lengths]  # no limit
    # gRPC waits up to two minutes before it looks for a lost server again.
    options.append(("grpc.max_reconnect_backoff_ms", MAX_BACKOFF_MS))
    target = endpoint.address.target
    if endpoint.address.is_secure:
        return module.secure_channel(target, grpc.ssl_channel_credentials(), options)
    return module.insecure_channel(target, options)


class Calls(NamedTuple):
    """The calls on a connection."""

    infer: Any
    """One request with one answer."""
    upload: Any
    """The same for a large request. gRPC keeps the request of a plain call until the answer comes;
    that of a call whose requests come from an iterator is freed once it is sent."""
    stream: Any
    """One request whose answer comes in parts."""
    ready: Any
    """The question whether a model is ready."""


def calls_on(channel: Any) -> Calls:
    """Return the calls on a connection."""
    from tritonclient.grpc import service_pb2

    answer = service_pb2.ModelInferResponse.FromString
    part = service_pb2.ModelStreamInferResponse.FromString
    return Calls(
        channel.unary_unary(f"{_SERVICE}/ModelInfer", response_deserializer=answer),
        channel.stream_unary(f"{_SERVICE}/ModelInfer", response_deserializer=answer),
        channel.stream_stream(f"{_SERVICE}/ModelStreamInfer", response_deserializer=part),
        channel.unary_unary(
            f"{_SERVICE}/ModelReady",
            request_serializer=service_pb2.ModelReadyRequest.SerializeToString,
            response_deserializer=service_pb2.ModelReadyResponse.FromString,
        ),
    )


def ready_request(model: str) -> Any:
    """Return the message that asks whether a model is ready."""
    from tritonclient.grpc import service_pb2

    return service_pb2.ModelReadyRequest(name=model)


async def upload(
    start: Callable[[AsyncIterator[bytes]], Any],
    request: tensors.Request,
    turns: AbstractAsyncContextManager[Any],
) -> Any:
    """Start a call with one message and return the call once the message is sent.

    The bytes are made in a thread, and before the call: it takes an error in its iterator for a
    cancellation. They are in memory until they are sent, twice, as gRPC has a copy of its own.

    Args:
        start: Starts the call with an iterator of its messages.
        request: What is sent.
        turns: Held while a large request is made and sent, SEND_S at most.

    Raises:
        AudioError: more audio than one gRPC message holds.
    """
    async with turns if size_of(request) > LARGE_BYTES else nullcontext():
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


def metadata(
    endpoint: Endpoint, request: tensors.Request | None = None
) -> tuple[tuple[str, str], ...]:
    """Return the headers of a request: those of every request, and the trace that it is part of.

    Args:
        endpoint: Where to.
        request: Has headers of its own; None for a question about the server.
    """
    traceparent = TRACEPARENT.get()
    return (
        *endpoint.headers.items(),
        *(request.headers.items() if request else ()),
        *([("traceparent", traceparent)] if traceparent else ()),
    )
