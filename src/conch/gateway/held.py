"""A session that is held open, in any protocol: how long it lasts, and how it ends."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from conch.client.timeouts import timeout
from conch.gateway.errors import ApiError, api_error
from conch.gateway.state import Gateway
from conch.wire.errors import OverloadedError, SessionError


async def held(
    gateway: Gateway,
    sending: Coroutine[Any, Any, None],
    reading: Coroutine[Any, Any, bool],
    close: Callable[[], None],
) -> bool:
    """Hold a session to its last text, and return whether the gateway has ended it, as it stops.

    Args:
        gateway: Says how long a session may last, and when it stops.
        sending: Sends what follows from what was read, to the last of it.
        reading: Reads what the client sends; returns whether it still waits for an answer.
        close: Lets `sending` end once everything so far is sent.

    Raises:
        ApiError: after the last text: the session has lasted too long, or a request is wrong.
        ConchError: after the last text: the audio is wrong. At once: the server has failed.
        OverloadedError: at once: the server makes no progress. So is an ApiError of 429, which says
            that too much waits.
        ConnectionResetError: the client is gone.
    """
    works = sending, reading, _until_stop(gateway)
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(work) for work in works]
    texts, read, stop = tasks
    waiting, error = {*tasks}, None
    try:
        while not texts.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {texts}:
                error = error or task.exception()
                is_gone = task is read and not (task.exception() or task.result())
                if is_gone or isinstance(error, ConnectionResetError) or _is_full(error):
                    texts.cancel()
                else:
                    close()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if not texts.cancelled():
        texts.result()
    if error is not None:
        raise error
    return not stop.cancelled()


def _is_full(error: BaseException | None) -> bool:
    """Return whether what waits would take too long."""
    return isinstance(error, OverloadedError) or (
        isinstance(error, ApiError) and error.status == 429
    )


async def _until_stop(gateway: Gateway) -> None:
    """Wait until the gateway stops; raise an ApiError if the session lasts too long."""
    longest_s = gateway.config.max_session_s
    try:
        async with timeout(longest_s):
            await gateway.draining.wait()
    except asyncio.TimeoutError:
        lasted = f"the session has lasted {longest_s:g} s, as long as one may"
        raise api_error(SessionError(f"{lasted}: open another")) from None
