"""One connection of the Wyoming protocol: what each event of a client asks for."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from wyoming.asr import Transcribe
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
)

from conch.audio.limits import check_rate
from conch.client.timeouts import timeout
from conch.gateway.answer_log import log_answer
from conch.gateway.errors import ApiError, api_error, invalid
from conch.gateway.held import held
from conch.gateway.live_audio import check_samples
from conch.gateway.live_session import LiveSession
from conch.gateway.models import DEFAULT_MODEL
from conch.gateway.state import Caller, Gateway
from conch.gateway.text_pieces import TextPieces, check_waiting
from conch.gateway.voicing import served_voices
from conch.gateway.wyoming import hearing, speaking
from conch.gateway.wyoming.description import described
from conch.gateway.wyoming.events import Events, samples_of
from conch.wire.access import made_id


class WyomingConnection:
    """Answers the events of one client, one after the other."""

    def __init__(self, gateway: Gateway, events: Events) -> None:
        self._gateway, self._events = gateway, events
        # The protocol has no keys.
        self._caller: Caller = gateway.caller(None)
        self._asked = Transcribe()
        """Settings of the audio that follows."""
        self._is_refused = self._is_writing = False
        """Whether audio or pieces of a text are thrown away up to their end, after an error."""
        self._has_left = False
        self._work: _Work | None = None

    async def run(self) -> None:
        """Answer until the client leaves; raise a ConnectionError if it is lost or stalls."""
        while not (self._has_left or self._events.is_cut):
            await self._unless_wrong(self._answer_next())

    async def _answer_next(self) -> None:
        event = None
        with suppress(asyncio.TimeoutError):  # an idle connection is closed, as those of HTTP
            async with timeout(self._gateway.config.times.keep_alive_s):
                event = await self._next()
        self._has_left = event is None
        if event is not None:
            await self._take(event)

    async def _next(self, idle_s: float | None = None) -> Event | None:
        """Return the next event, None at the end; raise an ApiError if none has come in time."""
        try:
            async with timeout(idle_s):
                event = await self._events.next()
        except asyncio.TimeoutError:
            message = f"no event has come for {idle_s:g} s; begin again"
            raise ApiError(408, message, code="timeout") from None
        self._has_left = event is None
        return event

    async def _unless_wrong(self, answering: Coroutine[Any, Any, None]) -> None:
        """Answer; send an error, after which the connection goes on."""
        status, found = 200, None
        outer, self._work = self._work, None
        try:
            await answering
            status = 499 if self._has_left else 200
        except (ConnectionError, asyncio.CancelledError):
            status = 499
            raise
        except Exception as error:
            found = api_error(error)
            status = found.status
            await self._events.send(Error(str(found), found.code))
        finally:
            work, self._work = self._work, outer
            if found is not None or work is not None:
                (work or _Work("wyoming", self._caller)).log(status, found)

    async def _take(self, event: Event) -> None:
        """Do what an event asks for; unknown ones are for other services of the protocol."""
        kind = event.type
        try:
            if Describe.is_type(kind):
                await self._describe()
            elif Ping.is_type(kind):
                await self._events.send(Pong(Ping.from_event(event).text))
            elif Transcribe.is_type(kind):
                self._asked = Transcribe.from_event(event)
            elif AudioStart.is_type(kind):
                await self._hear(AudioStart.from_event(event).rate)
            elif AudioChunk.is_type(kind) and not self._is_refused:
                await self._hear(AudioChunk.from_event(event).rate, event)
            elif AudioStop.is_type(kind):
                if not self._is_refused:
                    await hearing.send_text(self._events)
                self._is_refused, self._asked = False, Transcribe()
            elif Synthesize.is_type(kind):
                await self._speak(Synthesize.from_event(event))
            elif SynthesizeStart.is_type(kind):
                await self._speak_pieces(SynthesizeStart.from_event(event))
            elif SynthesizeStop.is_type(kind):
                self._is_writing = False
        except KeyError as error:
            raise invalid(None, f"the event {kind} lacks {error}") from None

    async def _describe(self) -> None:
        gateway = self._gateway
        names, voices = (DEFAULT_MODEL, *gateway.servers.models), await served_voices(gateway)
        await self._events.send(described(gateway.config.languages, names, voices))

    async def _hear(self, rate: int, first: Event | None = None) -> None:
        """Hear a command from its start, or its first chunk, to its end."""
        self._work = _Work(hearing.ROUTE, self._caller)
        self._is_refused = True
        options = hearing.options_asked(
            self._asked, self._gateway.model_aliases, self._gateway.config.languages
        )
        check_rate(rate, "rate")

        async def read(live: LiveSession) -> bool:
            event = first or await self._next(self._idle_s)
            while event is not None:
                if AudioStop.is_type(event.type):
                    self._is_refused, self._asked = False, Transcribe()
                    live.close()
                    return True
                if AudioStart.is_type(event.type):
                    raise invalid(None, "audio-start comes once before audio-stop")
                if AudioChunk.is_type(event.type):
                    chunk = AudioChunk.from_event(event)
                    if chunk.rate != rate:
                        message = f"rate stays as it was, {rate}; sent: {chunk.rate!r:.40}"
                        raise invalid("rate", message)
                    if not live.audio_s:
                        check_samples(chunk.audio, "pcm")
                    await live.feed(samples_of(chunk.audio, chunk))
                else:
                    await self._unless_wrong(self._take(event))
                event = await self._next(self._idle_s)
            return False

        await hearing.hear(
            *(self._gateway, self._caller, self._events, options, rate, self._work.request_id),
            read,
        )

    async def _speak(self, asked: Synthesize) -> None:
        # With a text in pieces it comes too, for servers that take no pieces.
        if self._is_writing:
            return
        self._work = _Work(speaking.ROUTE, self._caller)
        options = speaking.options_asked(asked.voice, asked.text_format)
        await speaking.speak(
            *(self._gateway, self._caller, self._events, asked.text or "", options),
            self._work.request_id,
        )

    async def _speak_pieces(self, asked: SynthesizeStart) -> None:
        """Speak a text that is still written, to its end."""
        self._work, pieces = _Work(speaking.ROUTE, self._caller), TextPieces()
        self._is_writing = True
        options = speaking.options_asked(asked.voice, asked.text_format)

        async def read() -> bool:
            while (event := await self._next(self._idle_s)) is not None:
                if SynthesizeStart.is_type(event.type):
                    raise invalid(None, "synthesize-start comes once before synthesize-stop")
                if SynthesizeChunk.is_type(event.type):
                    text = SynthesizeChunk.from_event(event).text or ""
                    check_waiting(pieces.num_waiting + len(text))
                    pieces.add(text)
                elif SynthesizeStop.is_type(event.type):
                    self._is_writing = False
                    pieces.end()
                    return True
                else:
                    await self._unless_wrong(self._take(event))
            return False

        sending = speaking.speak(
            *(self._gateway, self._caller, self._events, pieces.each(), options),
            self._work.request_id,
        )
        try:
            await self._gateway.unless_broken_off(held(self._gateway, sending, read(), pieces.end))
        finally:
            if not self._has_left:
                await self._events.send(SynthesizeStopped())

    @property
    def _idle_s(self) -> float:
        """Seconds without an event after which a command or a text ends."""
        return self._gateway.config.times.idle_s


class _Work:
    """A command or a text: what the access log and the metrics tell of it."""

    def __init__(self, route: str, caller: Caller) -> None:
        self.request_id = made_id()
        self._route, self._caller, self._began = route, caller, time.monotonic()

    def log(self, status: int, error: ApiError | None = None) -> None:
        log_answer(
            *(self.request_id, "TCP", self._route, status, self._caller.name),
            time.monotonic() - self._began,
            error=error,
            is_cancelled=status == 499,
        )
