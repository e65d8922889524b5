"""Read the body of a request, within limits of size and time."""

import asyncio

from aiohttp import web

from conch.client.timeouts import timeout
from conch.gateway.errors import ApiError, invalid


async def body_of(request: web.Request, max_bytes: int, within_s: float) -> bytes:
    """Return the body of a request; raise an ApiError if it is larger, or late."""
    data = bytearray()
    try:
        async with timeout(within_s):
            while len(data) <= max_bytes and (more := await request.content.readany()):
                data += more
    except asyncio.TimeoutError:
        message = f"the body did not come within {within_s:g} s"
        raise ApiError(408, message, param="body", code="upload_stalled") from None
    if len(data) > max_bytes:
        raise invalid("body", f"the body takes at most {max_bytes} bytes")
    return bytes(data)
