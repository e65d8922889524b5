"""`GET /v1/realtime`: OpenAI's realtime transcription sessions over a WebSocket."""

from aiohttp import web


async def realtime(request: web.Request) -> web.StreamResponse:
    """Hold a transcription session."""
    raise web.HTTPNotImplemented


async def make_client_secret(request: web.Request) -> web.Response:
    """Answer with a short-lived secret for a browser."""
    raise web.HTTPNotImplemented


async def make_transcription_session(request: web.Request) -> web.Response:
    """Answer with a short-lived secret, as the beta of the API did."""
    raise web.HTTPNotImplemented
