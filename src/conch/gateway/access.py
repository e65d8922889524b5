"""Who may send a request: API keys, and the web pages that a browser may call from."""

import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from conch.gateway.doors import DOORS
from conch.gateway.errors import ApiError
from conch.gateway.state import GATEWAY, Caller, Gateway
from conch.wire.hosts import is_loopback

OPEN_PATHS = ("/", "/docs", "/openapi.json", "/health/live", "/health/ready", "/favicon.ico")
"""Paths that need no key, with the page's files: they show nothing of requests."""
PAGE_FILES = "/page/"
SECRET_PATHS = {door.address for door in DOORS if door.transport == "websocket"}
"""Paths that take a client secret."""
KEY_PROTOCOL = "openai-insecure-api-key."
"""Beginning of a WebSocket subprotocol with a key: browsers cannot send headers."""
KEY_SCHEMES = ("bearer", "token")
"""Schemes of the header, and subprotocols of Deepgram before the one that is the key."""

_ALLOWED_HEADERS = (
    "authorization, content-type, x-api-key, x-request-id, openai-organization, openai-project, "
    "openai-beta"
)
_EXPOSED_HEADERS = "x-request-id, retry-after, x-should-retry, x-conch-ignored, x-conch-warnings"


def caller_of(request: web.Request) -> Caller:
    """Return the caller of a request; raise an ApiError without a key that it needs."""
    gateway = request.app[GATEWAY]
    if is_free(request):
        return gateway.caller(None)
    takes_secrets = request.method == hdrs.METH_GET and request.path in SECRET_PATHS
    return caller_with(gateway, secret_in(request.headers), takes_secrets=takes_secrets)


def caller_with(gateway: Gateway, secret: str, *, takes_secrets: bool = False) -> Caller:
    """Return the caller with a key or, if `takes_secrets`, a secret; or raise an ApiError."""
    if not gateway.keys.is_needed:
        return gateway.caller(None)
    if not secret:
        message = "this server needs an API key: send the header 'Authorization: Bearer KEY'"
        raise _unauthorised(message, code="missing_api_key")
    if (key := gateway.keys.find(secret)) is not None:
        return gateway.caller(key)
    if takes_secrets:
        issued = gateway.secrets.find(secret)
        if issued is not None and issued.until > time.time() and gateway.keys.has(issued.key):
            return gateway.caller(issued.key)
    raise _unauthorised("the API key is not one of this server's", code="invalid_api_key")


def _unauthorised(message: str, *, code: str) -> ApiError:
    return ApiError(401, message, code=code, headers={"WWW-Authenticate": "Bearer"})


def is_free(request: web.Request) -> bool:
    path = request.path
    is_preflight = request.method == hdrs.METH_OPTIONS
    return is_preflight or path in OPEN_PATHS or path.startswith(PAGE_FILES)


def is_websocket(request: web.Request) -> bool:
    return request.headers.get(hdrs.UPGRADE, "").lower() == "websocket"


def secret_in(headers: Mapping[str, str]) -> str:
    """Return the key or client secret that the headers of a request hold; empty for none."""
    scheme, _, secret = headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if scheme.lower() in KEY_SCHEMES and secret.strip():
        return secret.strip()
    if secret := headers.get("X-API-Key", "") or headers.get("api-key", ""):
        return secret.strip()
    offered = protocols_in(headers)
    if len(offered) == 2 and offered[0].lower() in KEY_SCHEMES:
        return offered[1]
    for protocol in offered:
        if protocol.startswith(KEY_PROTOCOL):
            return protocol.removeprefix(KEY_PROTOCOL)
    return ""


def protocols_in(headers: Mapping[str, str]) -> list[str]:
    """Return the WebSocket subprotocols that the headers of a request offer."""
    offered = headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL, "")
    return [item.strip() for item in offered.split(",") if item.strip()]


def check_origin(request: web.Request) -> None:
    """Raise an ApiError for a browser's request from a web page that may not use this gateway.

    Other programs send no Origin. Without keys, a gateway on loopback also refuses names that are
    not loopback: a page can resolve its own name to this machine (DNS rebinding).
    """
    gateway = request.app[GATEWAY]
    if not gateway.keys.is_needed and is_loopback(gateway.config.host):
        host = _host_in(f"//{request.host}")
        names = [urlsplit(origin).netloc for origin in gateway.config.allowed_origins]
        # The name without a scheme: a proxy may have taken off the TLS.
        is_named = "*" in gateway.config.allowed_origins or request.host in names
        if not (is_loopback(host) or is_named):
            raise ApiError(
                403,
                f"this gateway has no keys and serves this machine alone, not {host!r}: add a key "
                "(conch gateway keys add NAME), or name the address with --allow-origin",
                code="host_not_allowed",
            )
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is None or is_free(request):
        return
    is_own = bool(_host_in(origin)) and urlsplit(origin).netloc == request.host
    if not (is_own or _is_allowed(gateway, origin)):
        raise ApiError(
            403,
            f"pages of {origin} may not use this gateway: --allow-origin {origin} allows it",
            code="origin_not_allowed",
        )


def cors_headers(request: web.Request) -> dict[str, str]:
    """Return the headers that let a page of another host read the answer; none for others."""
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is None or not _is_allowed(request.app[GATEWAY], origin):
        return {}
    headers: dict[str, str] = {
        hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: origin,
        hdrs.ACCESS_CONTROL_EXPOSE_HEADERS: _EXPOSED_HEADERS,
        hdrs.VARY: hdrs.ORIGIN,
    }
    if request.method == hdrs.METH_OPTIONS:
        headers[hdrs.ACCESS_CONTROL_ALLOW_METHODS] = "GET, POST, OPTIONS"
        # OpenAI's client adds headers x-stainless-*, more with each version.
        requested = request.headers.get(hdrs.ACCESS_CONTROL_REQUEST_HEADERS, _ALLOWED_HEADERS)
        headers[hdrs.ACCESS_CONTROL_ALLOW_HEADERS] = requested
        headers[hdrs.ACCESS_CONTROL_MAX_AGE] = "3600"
    return headers


def _host_in(address: str) -> str:
    """Return the host of an address; empty if it has none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _is_allowed(gateway: Gateway, origin: str) -> bool:
    allowed = gateway.config.allowed_origins
    return "*" in allowed or origin in allowed
