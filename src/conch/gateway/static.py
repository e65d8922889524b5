"""The web page, and the one that shows the API's document: the files of `page` and `viewer`."""

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


async def index(request: web.Request) -> web.Response:
    """Answer with the web page."""
    return _answer("index.html")


async def docs(request: web.Request) -> web.Response:
    """Answer with the page that shows the API's document."""
    return _answer("docs.html")


async def favicon(request: web.Request) -> web.Response:
    """Answer with the icon that browsers ask for by themselves."""
    return _answer("favicon.svg")


async def file(request: web.Request) -> web.Response:
    """Answer with a file of the page."""
    return _answer(request.match_info["name"])


def _answer(name: str) -> web.Response:
    kind = TYPES.get(PurePosixPath(name).suffix)
    package = resources.files("conch.gateway")
    found = [
        path for path in (package / "page" / name, package / "viewer" / name) if path.is_file()
    ]
    if kind is None or not found:
        raise web.HTTPNotFound
    return web.Response(body=found[0].read_bytes(), headers={**HEADERS, "Content-Type": kind})
