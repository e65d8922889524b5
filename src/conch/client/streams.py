"""Requests whose answer comes in parts, over gRPC: blocking and asyncio.

Each such request has a connection of its own. Leaving the iterator early cancels the request. An
answer that has ended, or is about to end, is not cancelled: see DEADLINE_MARGIN_S.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from typing import Any

from conch.client import tensors
from conch.client.endpoint import Endpoint
from conch.client.timeouts import timeout
from conch.client.triton_messages import (
    DEADLINE_MARGIN_S,
    Result,
    grpc_arguments,
    grpc_error,
    grpc_message,
    result_of,
)
from conch.wire.errors import ConchError

GRACE_S = 0.1
"""Seconds that an answer may take to end by itself before it is cancelled."""


def stream(endpoint: Endpoint, request: tensors.Request) -> Generator[Result, None, None]:
    """Send a request; yield RESULT of every part of the answer as it arrives.

    Raises:
        ServerError: the server cannot be reached.
        ConchError: the server answered with an error.
    """
    import grpc  # type: ignore[import-untyped]
    import tritonclient.grpc as tritongrpc
    from tritonclient.grpc import service_pb2_grpc

    # tritonclient's own `start_stream` has no public way to say that no further request follows.
    # Without that, a gRPC thread waits for one for ever.
    message = grpc_message(request)
    timeout_s = request.timeout_s + DEADLINE_MARGIN_S
    with _channel(endpoint) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        give_up_at = time.monotonic() + timeout_s
        answers = stub.ModelStreamInfer(
            iter([message]), timeout=timeout_s, metadata=tuple(endpoint.headers.items())
        )
        error: ConchError | None = None
        try:
            for answer in answers:
                if answer.error_message:
                    # Raise it after the end of the answer, so that nothing is cancelled.
                    error = tensors.error(None, answer.error_message, str(endpoint))
                else:
                    yield result_of(tritongrpc.InferResult(answer.infer_response))
        except grpc.RpcError as failure:
            raise _failure(failure, give_up_at, request, endpoint) from None
        except GeneratorExit:
            # After the last segment the answer is about to end: wait before cancelling.
            cancelling = threading.Timer(GRACE_S, answers.cancel)
            cancelling.start()
            with contextlib.suppress(grpc.RpcError):
                for _ in answers:
                    pass
            cancelling.cancel()
            raise
        finally:
            # This does nothing if the answer has ended.
            answers.cancel()
        if error is not None:
            raise error


async def stream_async(
    endpoint: Endpoint, request: tensors.Request
) -> AsyncGenerator[Result, None]:
    """Send a request; yield RESULT of every part of the answer as it arrives.

    Raises:
        ServerError: the server cannot be reached.
        ConchError: the server answered with an error.
    """
    import grpc
    import tritonclient.grpc.aio as tritongrpc

    arguments = grpc_arguments(tritongrpc, request)
    timeout_s = arguments.pop("client_timeout")
    give_up_at = time.monotonic() + timeout_s

    async def only_request() -> AsyncIterator[dict[str, Any]]:
        yield arguments

    address = endpoint.address
    async with tritongrpc.InferenceServerClient(address.target, ssl=address.is_secure) as client:
        answers = client.stream_infer(
            only_request(), stream_timeout=timeout_s, headers=dict(endpoint.headers)
        )
        error: ConchError | None = None
        try:
            async for result, failure in answers:
                if failure is None:
                    yield result_of(result)
                else:
                    # Raise it after the end of the answer, so that nothing is cancelled.
                    error = tensors.error(None, failure.message(), str(endpoint))
        except grpc.RpcError as failure:
            raise _failure(failure, give_up_at, request, endpoint) from None
        except GeneratorExit:
            with contextlib.suppress(asyncio.TimeoutError, grpc.RpcError):
                async with timeout(GRACE_S):
                    async for _ in answers:
                        pass
            raise
        finally:
            # This does nothing if the answer has ended.
            answers.cancel()
        if error is not None:
            raise error


def _channel(endpoint: Endpoint) -> Any:
    """Return a new connection without a limit of the message size."""
    import grpc

    lengths = ("grpc.max_send_message_length", "grpc.max_receive_message_length")
    options = [(name, -1) for name in lengths]  # no limit
    target = endpoint.address.target
    if endpoint.address.is_secure:
        return grpc.secure_channel(target, grpc.ssl_channel_credentials(), options)
    return grpc.insecure_channel(target, options)


def _failure(
    failure: Any, give_up_at: float, request: tensors.Request, endpoint: Endpoint
) -> ConchError:
    """Return the exception for an answer that has broken off."""
    # A call whose time is over before it is sent fails with INTERNAL.
    if time.monotonic() >= give_up_at:
        return tensors.no_answer(request.timeout_s, str(endpoint))
    return grpc_error(str(failure.code()), failure.details() or "", request, endpoint)
