"""The live session of a caller, opened, measured and charged alike in every protocol."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from conch.gateway.errors import ApiError
from conch.gateway.live_session import LiveSession, LiveUpdate
from conch.gateway.servers import SessionClient
from conch.gateway.state import Caller, Gateway
from conch.wire.options import RecognitionOptions


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
            gateway.heard(caller, route, update.audio_s - charged_s)
            charged_s = update.audio_s
            if not live.is_closed:
                try:
                    caller.check_audio()
                except ApiError as error:
                    live.close(error)
