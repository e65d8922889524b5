"""Short-lived secrets for browsers, which open sessions with settings that the page chooses."""

import time
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from conch.gateway.bodies import body_of, read_object
from conch.gateway.doors import CLIENT_SECRETS
from conch.gateway.errors import wrong
from conch.gateway.realtime.config import SessionConfig
from conch.gateway.realtime.events import new_id, parse_json
from conch.gateway.state import CALLER, GATEWAY

LIFETIMES_S = (10, 7200)
"""Shortest and longest validity of a secret, in seconds, as at OpenAI."""
DEFAULT_LIFETIME_S = 600
OBJECT = "realtime.transcription_session"


async def make_client_secret(request: web.Request) -> web.Response:
    """Answer with a secret and the settings of the sessions that it opens."""
    body = await _body_of(request)
    lifetime_s = _lifetime_s(body.get("expires_after"), "expires_after")
    config, secret = _secret(request, body.get("session") or {}, lifetime_s)
    known = {"id": new_id("sess"), "object": OBJECT, "type": "transcription"}
    return web.json_response({**secret, "session": {**known, **config.as_session()}})


async def make_transcription_session(request: web.Request) -> web.Response:
    """Answer with the settings and a secret, as the beta of the API did."""
    body = await _body_of(request)
    wanted = body.get("client_secret")
    path = "client_secret.expires_at"
    expires_at = wanted.get("expires_at") if isinstance(wanted, dict) else None
    config, secret = _secret(request, body, _lifetime_s(expires_at, path))
    shown = {"id": new_id("sess"), "object": OBJECT, **config.as_beta_session()}
    return web.json_response({**shown, "client_secret": secret})


def _secret(
    request: web.Request, session: Any, lifetime_s: int
) -> tuple[SessionConfig, dict[str, Any]]:
    """Return settings, and the secret that opens sessions with them."""
    gateway, now = request.app[GATEWAY], time.time()
    config = SessionConfig().updated(session, gateway.model_aliases)
    value = gateway.secrets.make(request[CALLER].key, lifetime_s, now, config)
    return config, {"value": value, "expires_at": round(now) + lifetime_s}


async def _body_of(request: web.Request) -> Mapping[str, Any]:
    gateway = request.app[GATEWAY]
    gateway.count_request(request[CALLER])
    data = await body_of(request, CLIENT_SECRETS.max_message_bytes, gateway.config.times.settings_s)
    return read_object(data or b"{}", parse_json)


def _lifetime_s(sent: Any, path: str) -> int:
    if sent is None:
        return DEFAULT_LIFETIME_S
    low, high = LIFETIMES_S
    anchor = sent.get("anchor", "created_at") if isinstance(sent, dict) else None
    if anchor != "created_at":
        raise wrong(path, "an object with the anchor created_at", sent)
    seconds = sent.get("seconds", DEFAULT_LIFETIME_S)
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not low <= seconds <= high:
        raise wrong(f"{path}.seconds", f"an integer from {low} to {high}", seconds)
    return seconds
