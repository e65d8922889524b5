"""A web server that answers a client as a gateway would, without recognising anything."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from aiohttp import web
from anyio.from_thread import start_blocking_portal

from conch.wire.result import Hypothesis, Stage, Transcript

SAID = Transcript((Hypothesis("hello", -1.0, -1.0),), (), 1.0, ("vad",), {"vad": Stage(1, 2.0)})

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def error_body(code: str | None, message: str = "because", param: str | None = None) -> Any:
    return {"error": {"message": message, "type": "x", "param": param, "code": code}}


class PlainGateway:
    """Serves inside a `with` block, in a thread of its own, and keeps what it was asked."""

    def __init__(self, *, has_name: bool = True) -> None:
        self.has_name = has_name
        self.asked: list[tuple[str, dict[str, str]]] = []
        """Path and headers of every request, names in lower case."""
        self.fields: dict[str, Any] = {}
        """Fields of the latest form."""
        self.frames: list[bytes] = []
        """Binary frames of all WebSockets."""
        self.query: dict[str, str] = {}
        """Query of the latest WebSocket."""
        self.answers: dict[str, Answer] = {}
        """What answers a path in place of the usual."""
        self.url = ""
        self._running = ExitStack()

    def __enter__(self) -> "PlainGateway":
        portal = self._running.enter_context(start_blocking_portal())
        serving = portal.wrap_async_context_manager(self._serving())
        self.url = self._running.enter_context(serving)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._running.close()

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[str]:
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append((request.path, headers))
        if answer := self.answers.get(request.path):
            return await answer(request)
        if not self.has_name:
            return web.Response(status=404)
        match request.path:
            case "/health/live":
                return web.json_response({"status": "live", "service": "conch-gateway"})
            case "/v1/audio/transcriptions":
                return await self._file(request)
            case "/v1/conch/listen":
                return await self._listen(request)
        return web.json_response({})

    async def _file(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        self.fields = {
            name: value.file.read() if isinstance(value, web.FileField) else value
            for name, value in form.items()
        }
        text = SAID.to_json()
        if "stream" in form:
            text = f': hello\n\ndata: {{"type":"transcript.done","transcript":{text}}}\n\n'
            return web.Response(text=text, content_type="text/event-stream")
        return web.Response(text=text, content_type="application/json")

    async def _listen(self, request: web.Request) -> web.StreamResponse:
        self.query = dict(request.query)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "ready"})
        answer = '{{"type":"transcript","transcript":{}}}'
        async for message in socket:
            if message.type == web.WSMsgType.BINARY:
                self.frames.append(message.data)
                text = replace(SAID, is_final=False).to_json()
                await socket.send_str(answer.format(text))
            else:
                await socket.send_str(answer.format(SAID.to_json()))
                await socket.send_json({"type": "end"})
                await socket.close()
        return socket
