"""`GET /v1/listen`: Deepgram's live audio, over a WebSocket."""

import hashlib

from aiohttp import web

from conch.gateway import listen as conchs
from conch.gateway.deepgram import parameters
from conch.gateway.deepgram.live_results import LiveResults
from conch.gateway.deepgram.parameters import ListenParameters
from conch.gateway.deepgram.results import metadata
from conch.gateway.deepgram.sockets import TOKENS, DeepgramSocket, is_conchs
from conch.gateway.doors import DEEPGRAM_LISTEN
from conch.gateway.listen import ListenQuery, ListenSession
from conch.gateway.live_audio import ENCODINGS
from conch.gateway.option_fields import granted, taken_options
from conch.gateway.servers import SessionClient
from conch.gateway.socket_session import LiveSocket, command_in, hold
from conch.gateway.state import GATEWAY
from conch.wire.options import RecognitionOptions

COMMANDS = ("KeepAlive", "Finalize", "CloseStream")
CONCHS = {*conchs.OWN, *taken_options()} - {*parameters.OF_BOTH, *parameters.OF_LIVE_AUDIO}
"""Names in a query that Conch's own protocol alone knows."""

CONCHS_ENCODINGS = {*ENCODINGS} - {*parameters.ENCODINGS}


async def listen(request: web.Request) -> web.StreamResponse:
    if is_conchs(request, CONCHS) or request.query.get("encoding") in CONCHS_ENCODINGS:
        return await conchs.listen(request)
    gateway = request.app[GATEWAY]
    asked = parameters.parse([*request.query.items()], gateway.model_aliases, live=True)
    socket = LiveSocket(request, DEEPGRAM_LISTEN.max_message_bytes, *TOKENS)
    options, _ = await granted(gateway.servers, asked.options, asked.wishes, live=True)
    return await hold(
        request, socket, lambda client: _Session(request, socket, client, asked, options)
    )


class _Session(DeepgramSocket, ListenSession):
    def __init__(
        self,
        request: web.Request,
        socket: LiveSocket,
        client: SessionClient,
        asked: ListenParameters,
        options: RecognitionOptions,
    ) -> None:
        query = ListenQuery(
            encoding=asked.encoding,
            sample_rate=asked.sample_rate,
            options=options,
            has_stats=False,
            answers_all=False,
            has_resume=False,
            sent_before_s=0.0,
        )
        super().__init__(request, socket, client, query)
        self._asked, self._digest = asked, hashlib.sha256()

    async def _begin(self) -> None:
        """Send nothing: Deepgram's first message is a result."""

    async def _hear(self, data: bytes, *, ends: bool = False) -> None:
        self._digest.update(data)
        await super()._hear(data, ends=ends)

    async def _obey(self, text: str) -> None:
        command = command_in(text)
        match command.type if command else None:
            case "KeepAlive":
                pass
            case "Finalize":
                if not self._is_closing:
                    self._live.finalize()
            case "CloseStream":
                await self._end_audio()
            case _:
                await self._refuse(text, COMMANDS)

    async def _send_texts(self) -> None:
        results = LiveResults(self._asked, self._request_id)
        async for update in self._updates():
            for message in results.after(update):
                await self._send(message)
        for message in results.finish():
            await self._send(message)
        known = self._request_id, self._asked.model, self._digest.hexdigest()
        self._last = {"type": "Metadata", **metadata(*known, results.audio_s, 1)}
