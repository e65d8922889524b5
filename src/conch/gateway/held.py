"""A session that is held open, in any protocol: how it begins, lasts and ends."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from conch.client.aio import within
from conch.gateway.errors import ApiError, api_error
from conch.gateway.live_session import LiveSession, LiveUpdate
from conch.gateway.servers import SessionClient
from conch.gateway.state import Caller, Gateway
from conch.wire.errors import OverloadedError, SessionError
from conch.wire.options import RecognitionOptions


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
    lasted = f"the session has lasted {longest_s:g} s, as long as one may: open another"
    async with within(longest_s, api_error(SessionError(lasted))):
        await gateway.draining.wait()


def live_session_of(
    gateway: Gateway,
    client: SessionClient,
    options: RecognitionOptions,
    sample_rate: int,
    request_id: str,
    **settings: Any,
) -> LiveSession:
    """Return a session on a server, with the limits of the gateway; see `LiveSession`."""
    return LiveSession(
        client,
        options,
        sample_rate=sample_rate,
        max_backlog_s=gateway.config.max_backlog_s,
        request_id=request_id,
        freeing=gateway.freeing,
        **settings,
    )


async def charged_updates(
    live: LiveSession, gateway: Gateway, caller: Caller, route: str
) -> AsyncIterator[LiveUpdate]:
    """Yield the updates; measure the first text, and charge the audio of each after it is taken.

    A caller that has used up its audio ends the session. Raise a ConchError if the server fails.
    """
    has_text, charged_s = False, 0.0
    async for update in live.updates():
        if not has_text and update.has_text and live.first_audio_at is not None:
            has_text = True
            seconds = asyncio.get_running_loop().time() - live.first_audio_at
            gateway.metrics.first_text_seconds.labels(route).observe(seconds)
        yield update
        if update.audio_s > charged_s:
            gateway.count_audio(caller, route, update.audio_s - charged_s)
            charged_s = update.audio_s
            if not live.is_closed:
                try:
                    caller.check_audio()
                except ApiError as error:
                    live.close(error)
