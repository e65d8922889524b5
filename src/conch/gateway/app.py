"""The web application of a gateway: routes, middleware, pages of the UI, health and metrics."""

import asyncio
import difflib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from importlib import resources
from pathlib import PurePosixPath
from typing import TypeAlias

from aiohttp import hdrs, web

from conch.client.gateway import SERVICE
from conch.gateway import models, openapi, voices
from conch.gateway.access import caller_of, check_origin, cors_headers, is_websocket
from conch.gateway.bodies import sent
from conch.gateway.doors import DOORS, VOICES
from conch.gateway.errors import ApiError, api_error, openais_body
from conch.gateway.metrics import NOBODY, enter_trace, log_answer
from conch.gateway.state import CALLER, FAILURE, GATEWAY, REQUEST_ID, Gateway

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

_DOORS = {
    (door.method, door.address): door for door in DOORS if door.transport in ("http", "websocket")
}
_ELSEWHERE = {
    "/asr": "/v1/audio/transcriptions",
    "/inference": "/v1/audio/transcriptions",
    "/transcribe": "/v1/audio/transcriptions",
    "/health": "/health/ready",
    "/healthz": "/health/live",
}
"""Addresses here by those of other speech servers and of Kubernetes."""

_PAGE_POLICY = (
    "default-src 'self'; connect-src 'self' ws: wss:; "
    "media-src 'self' blob:; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Content security policy: nothing from other hosts, and no scripts or styles inside the HTML."""
_PAGE_HEADERS = {
    "Content-Security-Policy": _PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self)",
    # A new version of Conch must not meet the old one's files.
    "Cache-Control": "no-cache",
}
_PAGE_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def make_app(gateway: Gateway) -> web.Application:
    app = web.Application(middlewares=[sent, _observed, _checked])
    app[GATEWAY] = gateway
    app.add_routes(
        [
            *(web.route(door.method, door.address, door.answer) for door in _DOORS.values()),
            web.get(VOICES.address, voices.list_voices),
            web.get(f"{VOICES.address}/{{name}}", voices.get_voice),
            web.post(f"{VOICES.address}/{{name}}/stop", voices.stop_fitting),
            web.delete(f"{VOICES.address}/{{name}}", voices.remove_voice),
            web.get("/v1/models", models.list_models),
            web.get("/v1/models/{model}", models.get_model),
            web.get("/v1/options", openapi.list_options),
            web.get("/v1/components", openapi.list_components),
            web.get("/health/live", live),
            web.get("/health/ready", ready),
            web.get("/metrics", metrics),
            web.get("/openapi.json", openapi.document),
            web.get("/docs", page("docs.html")),
            web.get("/", page("index.html")),
            web.get("/favicon.ico", page("favicon.svg")),
            web.get(r"/page/{name:\w[\w.-]*}", page()),
        ]
    )
    return app


def page(name: str = "") -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler of a file; by default of the one that the path of the request names."""

    async def answer(request: web.Request) -> web.Response:
        file = name or request.match_info["name"]
        content_type = _PAGE_TYPES.get(PurePosixPath(file).suffix)
        package = resources.files("conch.gateway")
        paths = [package / folder / file for folder in ("page", "viewer")]
        existing = [path for path in paths if path.is_file()]
        if content_type is None or not existing:
            raise web.HTTPNotFound
        return web.Response(
            body=existing[0].read_bytes(), headers={**_PAGE_HEADERS, "Content-Type": content_type}
        )

    return answer


async def live(request: web.Request) -> web.Response:
    """Answer that a gateway runs; Conch's client looks for `service`."""
    return web.json_response({"status": "live", "service": SERVICE})


async def ready(request: web.Request) -> web.Response:
    """Answer whether the gateway takes work, and a server with all components is ready."""
    gateway = request.app[GATEWAY]
    if gateway.draining.is_set():
        return web.json_response({"status": "stopping"}, status=503)
    if not gateway.servers.is_ready:
        return web.json_response({"status": "no speech server is ready"}, status=503)
    if away := gateway.servers.away:
        status = {"status": "components do not answer", "components": away}
        return web.json_response(status, status=503)
    return web.json_response({"status": "ready"})


async def metrics(request: web.Request) -> web.Response:
    return web.Response(
        body=request.app[GATEWAY].metrics.as_text(),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


@web.middleware
async def _observed(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give a request its id, turn errors into answers, and count and log the outcome."""
    gateway = request.app[GATEWAY]
    # One task answers all requests of a connection: each enters its own trace.
    request[REQUEST_ID] = enter_trace(request.headers)
    # The pattern of the path: a label with few values.
    resource = request.match_info.route.resource
    route = resource.canonical if resource is not None else "other"
    began = time.monotonic()
    status = 499
    try:
        answer = await _answered(request, handler)
        status = answer.status
        return answer
    except (ConnectionResetError, asyncio.CancelledError):
        gateway.metrics.cancelled.labels(route).inc()
        # Of another error aiohttp would say, with its traceback, that it is a defect.
        raise asyncio.CancelledError from None
    finally:
        seconds = time.monotonic() - began
        caller = request.get(CALLER)
        name = caller.name if caller else NOBODY
        if not is_websocket(request):
            gateway.metrics.requests.labels(route, str(status), name).inc()
            gateway.metrics.request_seconds.labels(route).observe(seconds)
        is_frequent = route.startswith(("/health", "/page", "/metrics"))
        log_answer(
            *(request[REQUEST_ID], request.method, route, status, name, seconds),
            error=request.get(FAILURE),
            is_cancelled=status == 499,
            level=logging.DEBUG if is_frequent else logging.INFO,
        )


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        answer = await handler(request)
    except ConnectionResetError:
        raise
    except web.HTTPException as error:
        answer = _error_answer(request, _of_aiohttp(request, error))
    except Exception as error:
        answer = _error_answer(request, api_error(error))
    if not answer.prepared:
        answer.headers["x-request-id"] = request[REQUEST_ID]
        answer.headers.update(cors_headers(request))
    return answer


@web.middleware
async def _checked(request: web.Request, handler: Handler) -> web.StreamResponse:
    check_origin(request)
    request[CALLER] = caller_of(request)
    if request.method == hdrs.METH_OPTIONS and hdrs.ORIGIN in request.headers:
        return web.Response(status=204)
    return await handler(request)


def _error_answer(request: web.Request, error: ApiError) -> web.Response:
    request[FAILURE] = error
    door = _DOORS.get((request.method, request.path))
    body = (door.refusal if door else openais_body)(error, request[REQUEST_ID])
    # In ASCII: a message may repeat bytes of a header that are no UTF-8.
    text = json.dumps(body)
    return web.Response(
        status=error.status, text=text, content_type="application/json", headers=error.headers
    )


def _of_aiohttp(request: web.Request, error: web.HTTPException) -> ApiError:
    if error.status == 404:
        known = (resource.canonical for resource in request.app.router.resources())
        meant = meant_by(request.path, [path for path in known if "{" not in path])
        hint = f"did you mean {meant}? /docs lists all" if meant else "/docs lists them"
        return ApiError(
            404,
            f"no such address: {request.method} {request.path}; {hint}",
            code="unknown_url",
        )
    if error.status == 405:
        allowed = error.headers.get(hdrs.ALLOW, "")
        return ApiError(
            405,
            f"{request.path} takes {allowed}, not {request.method}",
            code="method_not_allowed",
            headers={hdrs.ALLOW: allowed},
        )
    return ApiError(error.status, error.reason)


def meant_by(path: str, known: Collection[str]) -> str:
    """Return the known path that a wrong one is close to, or "".

    >>> meant_by("/audio/transcriptions/", ["/v1/audio/transcriptions", "/v1/models"])
    '/v1/audio/transcriptions'
    """
    bare = "/" + "/".join(filter(None, path.lower().split("/")))
    if bare in _ELSEWHERE:
        return _ELSEWHERE[bare]
    end = bare.removeprefix("/v1")
    if end.strip("/") and (whole := next((item for item in known if item.endswith(end)), "")):
        return whole
    close = difflib.get_close_matches(bare[:200], known, n=1, cutoff=0.87)
    return close[0] if close else ""
