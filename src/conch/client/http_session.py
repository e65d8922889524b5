"""HTTP on asyncio, to a Triton or a gateway: connections, time limits and errors."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from conch.client import tensors
from conch.client.aio import timeout
from conch.client.endpoint import CONNECT_TIMEOUT_S, Endpoint
from conch.wire.errors import ConchError


def connector_to(endpoint: Endpoint, limit: int) -> Any:
    """Return what opens connections to a server, at most `limit` at once; 0 is no limit."""
    import aiohttp

    # aiohttp's own context has the certificates of when it was imported.
    trust = endpoint.trust() if endpoint.address.is_secure else True
    return aiohttp.TCPConnector(limit=limit, ssl=trust)


def session_to(endpoint: Endpoint, connector: Any, **settings: Any) -> Any:
    """Return an `aiohttp.ClientSession` with the headers of an endpoint, and further settings."""
    import aiohttp

    return aiohttp.ClientSession(
        connector=connector,
        headers=endpoint.headers,
        # `explained` has a time-out for all of a request.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        **settings,
    )


@contextlib.asynccontextmanager
async def explained(
    endpoint: Endpoint, timeout_s: float, give_up_at: float | None = None
) -> AsyncIterator[None]:
    """Give up in time by a DeadlineError, and raise the errors of aiohttp as a ServerLostError.

    The time begins now, or ends at `give_up_at`, by `time.monotonic`.
    """
    import aiohttp

    left_s = timeout_s if give_up_at is None else max(0.0, give_up_at - time.monotonic())
    try:
        async with timeout(left_s):
            yield
    except ConchError:
        raise
    except aiohttp.ConnectionTimeoutError:
        reason = f"no connection within {CONNECT_TIMEOUT_S:g} s"
        raise tensors.unreachable(str(endpoint), reason) from None
    except asyncio.TimeoutError:
        raise tensors.no_answer(timeout_s, str(endpoint)) from None
    except (OSError, aiohttp.ClientError) as failure:
        raise tensors.unreachable(str(endpoint), failure) from None
