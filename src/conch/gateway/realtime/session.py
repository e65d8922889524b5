"""`GET /v1/realtime`: one transcription session, from its WebSocket to its last event."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import aiohttp
from aiohttp import web

from conch.gateway.access import protocols_in, secret_in
from conch.gateway.doors import REALTIME
from conch.gateway.errors import ApiError
from conch.gateway.held import charged_updates, live_session_of
from conch.gateway.live_audio import RawDecoder
from conch.gateway.realtime import events
from conch.gateway.realtime.config import LOGPROBS, PARTIALS, SessionConfig
from conch.gateway.realtime.events import ClientEvent, Event, read_event
from conch.gateway.realtime.secrets import OBJECT
from conch.gateway.realtime.turns import EventDialect, Turns
from conch.gateway.servers import SessionClient
from conch.gateway.socket_session import LiveSocket, SocketSession, hold
from conch.gateway.state import GATEWAY
from conch.wire.result import strict_json

PROTOCOL = "realtime"
"""Subprotocol that browsers offer, with another one that holds their key."""
PIECE_BYTES = 2**20
"""Most audio that is decoded at once."""
BETA_PROTOCOL = "openai-beta.realtime-v1"


async def realtime(request: web.Request) -> web.StreamResponse:
    socket = LiveSocket(request, REALTIME.max_message_bytes, PROTOCOL)
    return await hold(request, socket, lambda client: _RealtimeSession(request, socket, client))


def _is_beta(request: web.Request) -> bool:
    """Return whether a client speaks the API before it was general."""
    header = request.headers.get("OpenAI-Beta", "")
    return "realtime=v1" in header or BETA_PROTOCOL in protocols_in(request.headers)


def _first_config(request: web.Request) -> SessionConfig:
    """Return the configuration of a session that begins: that of its client secret, if any."""
    gateway = request.app[GATEWAY]
    secret = gateway.secrets.find(secret_in(request.headers))
    settings = secret.settings if secret else None
    config = settings if isinstance(settings, SessionConfig) else SessionConfig()
    if model := request.query.get("model"):
        named = {"input_audio_transcription": {"model": model}}
        # OpenAI's clients name a model for conversations here, which is none of ours.
        with suppress(ApiError):
            config = config.updated(named, gateway.model_aliases)
    return config


class _RealtimeSession(SocketSession):
    def __init__(self, request: web.Request, socket: LiveSocket, client: SessionClient) -> None:
        super().__init__(request, socket, client)
        self._config, self._is_beta = _first_config(request), _is_beta(request)
        self._options = self._config.options(self._gateway.model_aliases)
        self._id = events.new_id("sess")
        self._turns = Turns(is_manual=self._config.is_manual, style=self._style)
        self._decoder = RawDecoder(self._config.format.encoding)
        self._refused: ApiError | None = None
        """Why the latest audio was wrong; None if it was right."""
        self._has_begun = asyncio.Event()
        """Set once there is a live session, or never will be one."""
        self._sending = asyncio.Lock()
        """Held from a change of the turns until its events are sent: they keep their order."""

    async def run(self) -> int:
        event_type = "transcription_session.created" if self._is_beta else "session.created"
        await self._send([self._described(event_type, is_beta=self._is_beta)])
        return await super().run()

    async def fail(self, error: ApiError) -> None:
        await self._send([*self._turns.fail(error), events.error_event(error)])

    async def _report(self, error: ApiError, event_id: str | None = None) -> None:
        async with self._sending:
            await self._send([events.error_event(error, event_id)])

    @property
    def _style(self) -> EventDialect:
        return EventDialect(
            is_beta=self._is_beta,
            has_partials=PARTIALS in self._config.include,
            has_logprobs=LOGPROBS in self._config.include,
            hears_speech=self._options.vad,
        )

    @property
    def _audio_s(self) -> float:
        return self._live.audio_s if self._live is not None else 0.0

    def _described(self, event_type: str, *, is_beta: bool) -> Event:
        """Return an event of this type with the effective configuration."""
        session: dict[str, Any] = {
            "id": self._id,
            "object": OBJECT,
            "expires_at": self._expires_at,
        }
        if is_beta:
            session |= {**self._config.as_beta_session(), "client_secret": None}
        else:
            session |= {"type": "transcription", **self._config.as_session()}
        return events.event(event_type, session=session)

    def _close(self) -> None:
        super()._close()
        self._has_begun.set()

    async def _take(self, frame: aiohttp.WSMessage) -> None:
        if self._is_closing:
            return
        event_id = None
        try:
            event = read_event(frame.data)
            event_id = event.id
            await self._obey(event)
        except ApiError as error:
            await self._report(error, event_id)

    async def _obey(self, event: ClientEvent) -> None:
        """Do what a client asks for; if it raises an ApiError, nothing has changed."""
        match event.type:
            case events.APPEND:
                await self._append(event)
            case events.COMMIT:
                await self._commit()
            case events.CLEAR:
                await self._clear()
            case _:
                await self._update(event)

    async def _append(self, event: ClientEvent) -> None:
        """Take audio; of several events in a row that are wrong alike, tell one."""
        try:
            await self._hear(event.audio)
        except ApiError as error:
            before, self._refused = self._refused, error
            if before is None or before.code != error.code:
                raise
        else:
            self._refused = None

    async def _hear(self, data: bytes) -> None:
        # What waits beyond the usual is an upload.
        with self._gateway.uploads.taken(max(0, len(data) - PIECE_BYTES)):
            if data and self._live is None:  # a client may choose its format until now
                self._live = live_session_of(
                    *(self._gateway, self._client, self._options, self._config.format.rate),
                    self._request_id,
                )
                self._has_begun.set()
            for start in range(0, len(data), PIECE_BYTES):
                assert self._live is not None
                await self._live.feed(self._decoder.samples(data[start : start + PIECE_BYTES]))

    async def _commit(self) -> None:
        async with self._sending:
            was_refused, self._refused = self._refused is not None, None
            try:
                new_events = self._turns.commit(self._audio_s)
            except ApiError:
                if was_refused:  # the client knows why there is no audio
                    return
                raise
            assert self._live is not None  # there was audio
            self._live.finalize()
            await self._send(new_events)

    async def _clear(self) -> None:
        async with self._sending:
            if self._live is None:
                await self._send([events.cleared()])
                return
            new_events = self._turns.clear(self._audio_s)
            self._live.clear()
            await self._send(new_events)

    async def _update(self, event: ClientEvent) -> None:
        aliases = self._gateway.model_aliases
        before, sent = self._config, self._options.sent
        config = before.updated(event.fields.get("session"), aliases)
        if self._live is not None and config.format.rate != before.format.rate:
            raise ApiError(
                400,
                f"the sample rate of a session is that of its first audio, {before.format.rate} "
                f"Hz; sent: {config.format.rate}; open another session",
                param="session.audio.input.format",
                code="rate_in_use",
            )
        is_beta = event.type == events.BETA_UPDATE
        async with self._sending:
            self._config, self._options = config, config.options(aliases)
            self._is_beta |= is_beta
            if config.format != before.format:
                self._decoder = RawDecoder(config.format.encoding)
            if self._live is None:
                self._turns = Turns(is_manual=config.is_manual)
            elif config.is_manual != before.is_manual or self._options.sent != sent:
                self._turns.cut(is_manual=config.is_manual)
                self._live.finalize()
                self._live.reconfigure(self._options)
            self._turns.style = self._style
            event_type = "transcription_session.updated" if is_beta else "session.updated"
            await self._send([self._described(event_type, is_beta=is_beta)])

    async def _send_texts(self) -> None:
        await self._has_begun.wait()
        if self._live is None:
            return
        async with self._live:
            updates = charged_updates(self._live, self._gateway, self._caller, self._route)
            async for update in updates:
                async with self._sending:
                    await self._send(self._turns.after(update))
            async with self._sending:
                await self._send(self._turns.finish(self._audio_s))

    async def _send(self, new_events: Iterable[Event]) -> None:
        for event in new_events:
            await self._socket.send(strict_json(event))
