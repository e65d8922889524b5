"""`GET /v1/realtime`: one transcription session, from its WebSocket to its last event."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import aiohttp
from aiohttp import web

from conch.client import AsyncClient
from conch.gateway.access import secret_in
from conch.gateway.errors import ApiError
from conch.gateway.live_audio import RawDecoder
from conch.gateway.live_session import LiveSession, LiveUpdate
from conch.gateway.realtime import client_events, events
from conch.gateway.realtime.client_events import ClientEvent, read_event
from conch.gateway.realtime.config import LOGPROBS, PARTIALS, AudioFormat, SessionConfig
from conch.gateway.realtime.events import Event
from conch.gateway.realtime.secrets import OBJECT
from conch.gateway.realtime.turns import Style, Turns
from conch.gateway.session_meter import SessionMeter
from conch.gateway.sockets import (
    LiveSocket,
    expired,
    hold,
    last_moment,
    protocols_in,
    until_one_ends,
)
from conch.gateway.state import CALLER, GATEWAY, REQUEST_ID, Caller, Gateway
from conch.wire.errors import OverloadedError
from conch.wire.result import strict_json

ROUTE = "/v1/realtime"
PROTOCOL = "realtime"
"""Subprotocol that browsers offer, with another one that holds their key."""
BETA_PROTOCOL = "openai-beta.realtime-v1"
MAX_MESSAGE_BYTES = client_events.MAX_AUDIO_BYTES * 4 // 3 + 2**20
"""Largest message: the longest audio in base64, and what is around it."""

_ENCODINGS: Mapping[str, str] = {
    "audio/pcm": "pcm16",
    "audio/pcmu": "mulaw",
    "audio/pcma": "alaw",
}


async def realtime(request: web.Request) -> web.StreamResponse:
    """Hold a transcription session.

    Raises:
        ApiError: before the WebSocket is accepted: nothing is free, or it is no WebSocket.
    """
    gateway, caller = request.app[GATEWAY], request[CALLER]
    socket = LiveSocket(request, PROTOCOL, MAX_MESSAGE_BYTES)

    def session(client: AsyncClient) -> _Session:
        return _Session(
            gateway,
            caller,
            client,
            socket,
            _first_config(request),
            is_beta=_is_beta(request),
            request_id=request[REQUEST_ID],
        )

    return await hold(request, ROUTE, socket, session)


def _is_beta(request: web.Request) -> bool:
    """Return whether a client speaks the API before it was general."""
    header = request.headers.get("OpenAI-Beta", "")
    return "realtime=v1" in header or BETA_PROTOCOL in protocols_in(request)


def _first_config(request: web.Request) -> SessionConfig:
    """Return the configuration of a session that begins: that of its client secret, if any."""
    gateway = request.app[GATEWAY]
    found = gateway.secrets.settings(secret_in(request.headers))
    config = found if isinstance(found, SessionConfig) else SessionConfig()
    model = request.query.get("model")
    if model:
        named = {"input_audio_transcription": {"model": model}}
        # OpenAI's clients name a model for conversations here, which is none of ours.
        with suppress(ApiError):
            config = config.updated(named, gateway.config.model_aliases)
    return config


class _Session:
    """One session: reads the events of a client, and sends what follows from them."""

    def __init__(
        self,
        gateway: Gateway,
        caller: Caller,
        client: AsyncClient,
        socket: LiveSocket,
        config: SessionConfig,
        *,
        is_beta: bool,
        request_id: str,
    ) -> None:
        self._gateway, self._client = gateway, client
        self._socket, self._request_id = socket, request_id
        self._config, self._is_beta = config, is_beta
        self._id = events.new_id("sess")
        self._longest_s = gateway.config.max_session_s
        self._expires_at = round(time.time() + self._longest_s)
        self._turns = Turns(is_manual=config.is_manual, style=self._style)
        self._decoder = _decoder_of(config.format)
        self._live: LiveSession | None = None
        """None before the first audio, as the client may choose its format until then."""
        self._has_begun = asyncio.Event()
        """Set once there is a live session, or never will be one."""
        self._sending = asyncio.Lock()
        """Held from a change of the turns until its events are sent: they keep their order."""
        self._code = int(aiohttp.WSCloseCode.OK)
        """Code of the close frame after the last text."""
        self._is_closing = False
        """Whether no more events of the client are heeded."""
        self._meter = SessionMeter(gateway, caller, ROUTE)

    async def run(self) -> int:
        """Hold the session and return the code of its close frame.

        Raises:
            ApiError: too much audio waits, or the caller has used up a limit.
            ConchError: the server has failed.
            ConnectionResetError: the client is gone.
        """
        kind = "transcription_session.created" if self._is_beta else "session.created"
        await self._send([events.session_event(kind, self._described(is_beta=self._is_beta))])
        await until_one_ends(self._send_texts(), self._read(), self._end_in_time())
        return self._code

    async def fail(self, error: ApiError) -> None:
        """Send the client the error that has ended the session."""
        await self._send([*self._turns.fail(error), events.error_event(error)])

    @property
    def _style(self) -> Style:
        return Style(
            is_beta=self._is_beta,
            has_partials=PARTIALS in self._config.include,
            has_logprobs=LOGPROBS in self._config.include,
        )

    @property
    def _audio_s(self) -> float:
        return self._live.audio_s if self._live is not None else 0.0

    def _described(self, *, is_beta: bool) -> dict[str, Any]:
        """Return the effective configuration with the id of the session."""
        known = {"id": self._id, "object": OBJECT, "expires_at": self._expires_at}
        if is_beta:
            return {**known, **self._config.as_beta_session(), "client_secret": None}
        return {**known, "type": "transcription", **self._config.as_session()}

    async def _end_in_time(self) -> None:
        """End the session with its last text when the gateway stops, or it lasts too long."""
        self._code = await last_moment(self._gateway.draining, self._longest_s)
        if self._code == aiohttp.WSCloseCode.POLICY_VIOLATION:
            await self._send_in_turn([events.error_event(expired(self._longest_s))])
        self._is_closing = True
        self._has_begun.set()
        if self._live is not None:
            self._live.close()

    async def _read(self) -> None:
        """Read the socket until it is closed.

        Raises:
            ApiError: too much audio waits.
        """
        async for frame in self._socket.frames():
            if self._is_closing:
                continue
            event_id = None
            try:
                event = _event_in(frame.data)
                event_id = event.id
                await self._obey(event)
            except ApiError as error:
                await self._send_in_turn([events.error_event(error, event_id)])
            except OverloadedError as error:
                raise ApiError(429, str(error), code="backlog_exceeded") from None

    async def _obey(self, event: ClientEvent) -> None:
        """Do what a client asks for.

        Raises:
            ApiError: it cannot be done. Nothing has changed.
            OverloadedError: too much audio waits.
        """
        match event.type:
            case client_events.APPEND:
                self._append(event)
            case client_events.COMMIT:
                await self._commit()
            case client_events.CLEAR:
                await self._clear()
            case _:
                await self._update(event)

    def _append(self, event: ClientEvent) -> None:
        kind = self._config.format
        most_s = self._gateway.config.max_backlog_s
        seconds = event.num_audio_bytes / kind.sample_bytes / kind.rate
        if seconds > most_s:
            raise ApiError(
                400,
                f"one event takes at most {most_s:g} s of audio; sent: {seconds:.1f} s; send it in "
                "pieces, no faster than the text comes",
                param="audio",
                code="audio_too_long",
            )
        samples = self._decoder.samples(event.audio)
        if not len(samples):
            return
        if self._live is None:
            self._meter.audio_came()
            self._live = LiveSession(
                self._client,
                self._config.options(self._gateway.config.model_aliases),
                sample_rate=kind.rate,
                max_backlog_s=most_s,
                request_id=self._request_id,
                freeing=self._gateway.freeing,
            )
            self._has_begun.set()
        self._live.feed(samples)

    async def _commit(self) -> None:
        async with self._sending:
            found = self._turns.commit(self._audio_s)
            assert self._live is not None  # there was audio
            self._live.finalize()
            await self._send(found)

    async def _clear(self) -> None:
        async with self._sending:
            if self._live is None:
                await self._send([events.cleared()])
                return
            found = self._turns.clear(self._audio_s)
            self._live.clear()
            await self._send(found)

    async def _update(self, event: ClientEvent) -> None:
        aliases = self._gateway.config.model_aliases
        before = self._config
        config = before.updated(event.fields.get("session"), aliases)
        if self._live is not None and config.format.rate != before.format.rate:
            raise ApiError(
                400,
                f"the sample rate of a session is that of its first audio, {before.format.rate} "
                f"Hz; sent: {config.format.rate}; open another session",
                param="session.audio.input.format",
                code="rate_in_use",
            )
        is_beta = event.type == client_events.BETA_UPDATE
        async with self._sending:
            self._config = config
            self._is_beta |= is_beta
            if config.format != before.format:
                self._decoder = _decoder_of(config.format)
            options = config.options(aliases)
            if self._live is None:
                self._turns = Turns(is_manual=config.is_manual)
            elif config.is_manual != before.is_manual or options != before.options(aliases):
                self._turns.cut(is_manual=config.is_manual)
                self._live.finalize()
                self._live.reconfigure(options)
            self._turns.style = self._style
            kind = "transcription_session.updated" if is_beta else "session.updated"
            await self._send([events.session_event(kind, self._described(is_beta=is_beta))])

    async def _send_texts(self) -> None:
        """Send what the server hears, to the last text.

        Raises:
            ApiError: the caller has used up a limit.
            ConchError: the server has failed.
            ConnectionResetError: the client is gone.
        """
        await self._has_begun.wait()
        if self._live is None:
            return
        async with self._live as live:
            async for update in live.updates():
                if _has_text(update):
                    self._meter.text_came()
                async with self._sending:
                    await self._send(self._turns.after(update))
                self._meter.charge(update.audio_s, is_closing=self._is_closing)
        async with self._sending:
            await self._send(self._turns.finish(self._audio_s))

    async def _send_in_turn(self, found: Iterable[Event]) -> None:
        async with self._sending:
            await self._send(found)

    async def _send(self, found: Iterable[Event]) -> None:
        for event in found:
            await self._socket.send(strict_json(event))


def _event_in(data: str | bytes) -> ClientEvent:
    """Return the event of a frame.

    Raises:
        ApiError: it is none.
    """
    if isinstance(data, bytes):
        message = f"an event is a text frame; audio goes as base64 in {client_events.APPEND}"
        raise ApiError(400, message, code="invalid_frame")
    return read_event(data)


def _decoder_of(kind: AudioFormat) -> RawDecoder:
    return RawDecoder(_ENCODINGS[kind.type])


def _has_text(update: LiveUpdate) -> bool:
    """Return whether an update has words."""
    return bool(update.utterance and update.utterance.words) or any(
        found.segment.text for found in update.segments
    )
