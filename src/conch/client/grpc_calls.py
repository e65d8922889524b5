"""The gRPC calls of Triton's protocol (KServe v2) that Conch makes, blocking and asyncio.

Requests are bytes already: see `grpc_bytes`. tritonclient has the messages; its own clients would
copy them.
"""

import asyncio
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

from conch.client import tensors
from conch.client.endpoint import Endpoint
from conch.client.triton_messages import grpc_bytes

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


def infer_call(channel: Any) -> Any:
    """Return the call of one request with one answer."""
    from tritonclient.grpc import service_pb2

    return channel.unary_unary(
        f"{_SERVICE}/ModelInfer",
        response_deserializer=service_pb2.ModelInferResponse.FromString,
    )


def upload_call(channel: Any) -> Any:
    """Return the call of one large request with one answer, on asyncio.

    gRPC keeps the request of a plain call until the answer comes. That of a call whose requests
    come from an iterator is freed once it is sent. To the server both are the same.
    """
    from tritonclient.grpc import service_pb2

    return channel.stream_unary(
        f"{_SERVICE}/ModelInfer",
        response_deserializer=service_pb2.ModelInferResponse.FromString,
    )


def stream_call(channel: Any) -> Any:
    """Return the call whose answer comes in parts."""
    from tritonclient.grpc import service_pb2

    return channel.stream_stream(
        f"{_SERVICE}/ModelStreamInfer",
        response_deserializer=service_pb2.ModelStreamInferResponse.FromString,
    )


def ready_call(channel: Any) -> Any:
    """Return the call that asks whether a model is ready."""
    from tritonclient.grpc import service_pb2

    return channel.unary_unary(
        f"{_SERVICE}/ModelReady",
        request_serializer=service_pb2.ModelReadyRequest.SerializeToString,
        response_deserializer=service_pb2.ModelReadyResponse.FromString,
    )


def ready_request(model: str) -> Any:
    """Return the message that asks whether a model is ready."""
    from tritonclient.grpc import service_pb2

    return service_pb2.ModelReadyRequest(name=model)


async def uploaded(request: tensors.Request) -> AsyncIterator[bytes]:
    """Return the only message of a call, as an iterator that does not keep it.

    The bytes are made in a thread, and before the call: it takes an error in its iterator for a
    cancellation.

    Raises:
        AudioError: more audio than one gRPC message holds.
    """
    messages = [await asyncio.to_thread(grpc_bytes, request)]

    async def once() -> AsyncIterator[bytes]:
        yield messages.pop()

    return once()


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
