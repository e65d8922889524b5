"""Requests whose answer comes in parts, over gRPC.

Each such request has a connection of its own. Leaving the iterator early cancels the request. An
answer that has ended, or is about to end, is not cancelled: see DEADLINE_MARGIN_S.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

from conch.client import grpc_calls, tensors
from conch.client.endpoint import Endpoint
from conch.client.timeouts import timeout
from conch.client.triton_messages import DEADLINE_MARGIN_S, grpc_failure, grpc_result
from conch.wire.errors import ConchError
from conch.wire.result import Transcript

GRACE_S = 0.1
"""Seconds that an answer may take to end by itself before it is cancelled. Leaving the iterator
gives them. Whoever cancels a task that waits for the next part has to wait for it first."""


async def stream(
    endpoint: Endpoint,
    request: tensors.Request,
    turns: contextlib.AbstractAsyncContextManager[Any],
) -> AsyncGenerator[Transcript, None]:
    """Send a request; yield every part of the answer as it arrives.

    Args:
        endpoint: Where to.
        request: What is sent.
        turns: As of `grpc_calls.upload`.

    Raises:
        ServerError: the server cannot be reached.
        ConchError: the server answered with an error.
    """
    import grpc  # type: ignore[import-untyped]

    # tritonclient's own `start_stream` has no public way to say that no further request follows.
    # Without that, a gRPC thread waits for one for ever.
    timeout_s = request.timeout_s + DEADLINE_MARGIN_S
    async with grpc_calls.channel(grpc.aio, endpoint) as channel:
        give_up_at = time.monotonic() + timeout_s
        start = partial(
            grpc_calls.calls_on(channel).stream,
            timeout=timeout_s,
            metadata=grpc_calls.metadata(endpoint, request),
        )
        answers = await grpc_calls.upload(start, request, turns)
        error: ConchError | None = None
        try:
            async for answer in answers:
                if answer.error_message:
                    # Raise it after the end of the answer, so that nothing is cancelled.
                    error = tensors.error(None, answer.error_message, str(endpoint))
                else:
                    result = grpc_result(answer.infer_response)
                    yield (await tensors.transcripts(result, 1))[0]
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


def _failure(
    failure: Any, give_up_at: float, request: tensors.Request, endpoint: Endpoint
) -> ConchError:
    """Return the exception for an answer that has broken off."""
    # A call whose time is over before it is sent fails with INTERNAL.
    if time.monotonic() >= give_up_at:
        return tensors.no_answer(request.timeout_s, str(endpoint))
    return grpc_failure(failure, request, endpoint)
