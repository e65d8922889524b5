"""`GET /v1/listen`: live audio over a WebSocket, the plain way."""

import aiohttp
from aiohttp import web

from conch.gateway.doors import LISTEN
from conch.gateway.held import charged_updates, live_session_of
from conch.gateway.listen_messages import FrameAnswers, ListenMessages
from conch.gateway.listen_query import ListenQuery, query_of
from conch.gateway.live_audio import RAW, LiveFrames
from conch.gateway.live_session import LiveSession
from conch.gateway.servers import SessionClient
from conch.gateway.socket_session import PROTOCOL, PlainSession, command_in, error_for_client, hold
from conch.gateway.sockets import LiveSocket
from conch.gateway.state import GATEWAY
from conch.wire.errors import AudioError


async def listen(request: web.Request) -> web.StreamResponse:
    # First, as a browser learns from a plain GET alone why its WebSocket was refused.
    query = query_of(list(request.query.items()), request.app[GATEWAY].model_aliases)
    socket = LiveSocket(request, PROTOCOL, LISTEN.max_message_bytes)
    return await hold(request, socket, lambda client: _Listener(request, socket, client, query))


class _Listener(PlainSession):
    def __init__(
        self, request: web.Request, socket: LiveSocket, client: SessionClient, query: ListenQuery
    ) -> None:
        super().__init__(request, socket, client)
        self._query = query
        options = query.options
        if query.answers_all:  # its answers are those of a stream without a gateway
            options = options.unless_sent(history_s=options.history_s)
        self._live: LiveSession = live_session_of(
            *(self._gateway, client, options, query.sample_rate, self._request_id),
            joins=not query.answers_all,
            told_s=0.0 if query.answers_all else query.told_s,
        )
        self._frames = LiveFrames(query.encoding, query.sample_rate)

    async def run(self) -> int:
        query = self._query
        await self._greet(encoding=query.encoding, sample_rate=query.sample_rate)
        async with self._frames, self._live:
            return await super().run()

    async def _take(self, frame: aiohttp.WSMessage) -> None:
        if frame.type == aiohttp.WSMsgType.BINARY:
            await self._hear(frame.data)
        else:
            await self._obey(frame.data)

    async def _hear(self, data: bytes, *, ends: bool = False) -> None:
        if self._is_closing:
            return
        try:
            async for samples in self._frames.decoded(data, ends=ends):
                await self._live.feed(samples)
        except AudioError as error:
            if self._query.encoding not in RAW:
                raise
            await self.fail(error_for_client(error))

    async def _obey(self, text: str) -> None:
        known = ("close", "keepalive", "finalize")[: 2 if self._query.answers_all else 3]
        command = command_in(text)
        kind = command.type if command else None
        if kind not in known:
            await self._refuse(text, known)
        elif kind == "close":
            await self._hear(b"", ends=True)
            self._close()
        elif kind == "finalize" and not self._is_closing:
            self._live.finalize()

    async def _send_texts(self) -> None:
        query = self._query
        messages = ListenMessages(has_stats=query.has_stats, has_resume=query.has_resume)
        answers = FrameAnswers()
        updates = charged_updates(self._live, self._gateway, self._caller, self._route)
        async for update in updates:
            new = list(messages.after(update))
            if not query.answers_all:
                for message in new:
                    await self._send(message)
            elif (answer := answers.after(update)) is not None:
                text = f'{{"type":"transcript","transcript":{answer.to_json()}}}'
                await self._socket.send(text)
        self._last = messages.end()
