"""The live session of a caller, opened, measured and charged alike in every protocol."""

import time
from collections.abc import AsyncIterator, Callable, Mapping

from conch.client import AsyncClient, OptionValue
from conch.gateway.live_session import LiveSession, LiveUpdate
from conch.gateway.state import Caller, Gateway


def live_session_of(
    gateway: Gateway,
    client: AsyncClient,
    options: Mapping[str, OptionValue],
    sample_rate: int,
    request_id: str,
    *,
    joins: bool = True,
) -> LiveSession:
    """Return a session on a server, with the limits of the gateway; see `LiveSession`."""
    return LiveSession(
        client,
        options,
        sample_rate=sample_rate,
        max_backlog_s=gateway.config.max_backlog_s,
        request_id=request_id,
        joins=joins,
        freeing=gateway.freeing,
    )


async def charged_updates(
    live: LiveSession,
    gateway: Gateway,
    caller: Caller,
    route: str,
    first_audio_at: Callable[[], float | None],
    is_closing: Callable[[], bool],
) -> AsyncIterator[LiveUpdate]:
    """Yield the updates; measure the first text, and charge the audio of each after it is taken.

    Args:
        live: The session.
        gateway: Keeps the metrics.
        caller: Is charged.
        route: Label of the metrics.
        first_audio_at: Returns when audio first came, by `time.monotonic`; None before.
        is_closing: Returns whether the session takes no more audio: what is left of it is
            recognised in any case.

    Raises:
        ApiError: the caller has used up its audio.
        ConchError: the server has failed.
    """
    has_text, charged_s = False, 0.0
    async for update in live.updates():
        began = first_audio_at()
        if not has_text and began is not None and update.has_text:
            has_text = True
            seconds = time.monotonic() - began
            gateway.metrics.first_text_seconds.labels(route).observe(seconds)
        yield update
        if update.audio_s > charged_s:
            gateway.heard(caller, route, update.audio_s - charged_s)
            charged_s = update.audio_s
            if not is_closing():
                caller.check_audio()
