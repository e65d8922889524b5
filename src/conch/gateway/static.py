"""The web page, and the one that shows the API's document: the files of `page` and `viewer`."""

from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import PurePosixPath

from aiohttp import web

POLICY = (
    "default-src 'self'; connect-src 'self' ws: wss:; "
    "media-src 'self' blob:; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Content security policy: nothing from other hosts, and no scripts or styles inside the HTML."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self)",
    # A new version of Conch must not meet the old one's files.
    "Cache-Control": "no-cache",
}
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def page(name: str = "") -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler of a file; by default of the one that the path of the request names."""

    async def answer(request: web.Request) -> web.Response:
        file = name or request.match_info["name"]
        kind = TYPES.get(PurePosixPath(file).suffix)
        package = resources.files("conch.gateway")
        paths = [package / folder / file for folder in ("page", "viewer")]
        found = [path for path in paths if path.is_file()]
        if kind is None or not found:
            raise web.HTTPNotFound
        return web.Response(body=found[0].read_bytes(), headers={**HEADERS, "Content-Type": kind})

    return answer
