"""A request whose answer comes in parts, over gRPC: blocking and asyncio.

A stream has a connection of its own, because tritonclient's blocking client takes one stream at a
time, and ends with its iterator: whoever stops early cancels the request. Only an answer that has
ended, or is about to, is not cancelled: see `DEADLINE_MARGIN_S` in `transports`.
"""

import asyncio
import contextlib
import queue
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from typing import Any

from conch.client import wire
from conch.client.address import Address
from conch.client.timeouts import timeout
from conch.client.transports import Result, grpc_arguments, grpc_error, result_of
from conch.errors import ConchError, ServerError

GRACE_S = 0.1
"""How long an answer that nobody reads on may take to end by itself before it is cancelled."""


def stream(address: Address, request: wire.Request) -> Generator[Result, None, None]:
    """Send a request; yield RESULT of every part of the answer as it comes."""
    _check_protocol(address)
    import tritonclient.grpc as tritongrpc
    from tritonclient.utils import InferenceServerException

    arguments = grpc_arguments(tritongrpc, request)
    timeout_s = arguments.pop("client_timeout")
    answers: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
    client = tritongrpc.InferenceServerClient(address.target, ssl=address.is_secure)
    try:
        client.start_stream(
            lambda result, error: answers.put((result, error)), stream_timeout=timeout_s
        )
        # A stream that has failed already takes no request; why it failed is in the queue.
        with contextlib.suppress(InferenceServerException):
            client.async_stream_infer(**arguments, enable_empty_final_response=True)
        # No further request will come. Without this, gRPC's thread waits for one for ever after a
        # failure or a cancellation; tritonclient has no public way to say it.
        client._stream._request_queue.put(None)
        ended = False
        try:
            while not ended:
                result, failure = answers.get(timeout=timeout_s)
                ended = _is_last(result, failure)
                if failure is not None:
                    raise _error(failure, request, address)
                if result.get_response().outputs:
                    yield result_of(result)
        except queue.Empty:
            raise wire.no_answer(request.timeout_s, str(address)) from None
        except GeneratorExit:
            # Whoever leaves at the last segment leaves shortly before the end.
            with contextlib.suppress(queue.Empty):
                give_up_at = time.monotonic() + GRACE_S
                while not ended:
                    ended = _is_last(*answers.get(timeout=max(0, give_up_at - time.monotonic())))
            raise
        finally:
            client.stop_stream(cancel_requests=not ended)
    finally:
        client.close()


async def stream_async(address: Address, request: wire.Request) -> AsyncGenerator[Result, None]:
    """Send a request; yield RESULT of every part of the answer as it comes."""
    _check_protocol(address)
    import grpc  # type: ignore[import-untyped]
    import tritonclient.grpc.aio as tritongrpc

    arguments = grpc_arguments(tritongrpc, request)
    timeout_s = arguments.pop("client_timeout")
    give_up_at = time.monotonic() + timeout_s

    async def only_request() -> AsyncIterator[dict[str, Any]]:
        yield arguments

    async with tritongrpc.InferenceServerClient(address.target, ssl=address.is_secure) as client:
        answers = client.stream_infer(only_request(), stream_timeout=timeout_s)
        error: ConchError | None = None
        try:
            async for result, failure in answers:
                if failure is None:
                    yield result_of(result)
                else:
                    # Raised behind the end of the stream, so that nothing is cancelled.
                    error = _error(failure, request, address)
        except grpc.RpcError as failure:
            # A call that is out of time before it is sent fails with INTERNAL.
            if time.monotonic() >= give_up_at:
                raise wire.no_answer(request.timeout_s, str(address)) from None
            code, message = str(failure.code()), failure.details() or ""
            raise grpc_error(code, message, request, address) from None
        except GeneratorExit:
            with contextlib.suppress(asyncio.TimeoutError, grpc.RpcError):
                async with timeout(GRACE_S):
                    async for _ in answers:
                        pass
            raise
        finally:
            # Where the stream has come to its end, this does nothing.
            answers.cancel()
        if error is not None:
            raise error


def _is_last(result: Any, failure: Any) -> bool:
    """Whether this ends the answer to the request, and the stream has not broken off."""
    if failure is not None:
        return failure.status() is None
    return bool(result.get_response().parameters["triton_final_response"].bool_param)


def _error(failure: Any, request: wire.Request, address: Address) -> ConchError:
    code, message = failure.status(), failure.message()
    if code is None:
        return wire.stream_error(message, str(address))
    return grpc_error(code, message, request, address)


def _check_protocol(address: Address) -> None:
    if not address.is_grpc:
        raise ServerError(
            f"{address} is an HTTP address, and a stream goes over gRPC: give the client a grpc:// "
            "URL (grpc://127.0.0.1:8001 for a server that runs here)"
        )
