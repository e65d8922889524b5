"""Whether a gateway is live and ready, and its metrics."""

from aiohttp import web

from conch.client.gateway import SERVICE
from conch.gateway.state import GATEWAY


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
    """Answer with the metrics of the gateway in Prometheus' text format."""
    return web.Response(
        body=request.app[GATEWAY].metrics.as_text(),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )
