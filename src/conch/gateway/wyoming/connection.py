"""One connection of the Wyoming protocol: what each event of a client asks for."""

import asyncio
import time
from collections.abc import Awaitable

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

from conch.gateway.answer_log import log_answer
from conch.gateway.errors import ApiError, api_error, invalid
from conch.gateway.models import DEFAULT_MODEL
from conch.gateway.served_voices import served_voices
from conch.gateway.state import Caller, Gateway, cancelled
from conch.gateway.text_pieces import TextPieces, check_waiting
from conch.gateway.wyoming import hearing, speaking
from conch.gateway.wyoming.description import described
from conch.gateway.wyoming.events import Events, checked_rate, samples_of
from conch.gateway.wyoming.hearing import Hearing
from conch.wire.access import made_id


class Connection:
    """Answers the events of one client, one after the other."""

    def __init__(self, gateway: Gateway, events: Events) -> None:
        self._gateway, self._events = gateway, events
        # The protocol has no keys.
        self._caller: Caller = gateway.caller(None)
        self._asked = Transcribe()
        """How the audio that follows is heard."""
        self._hearing: Hearing | None = None
        self._rate = 0
        self._is_refused = False
        """Whether the audio up to its end is thrown away, after an error."""
        self._pieces = TextPieces()
        self._speaking: asyncio.Task[None] | None = None
        """Speaks a text that is still written."""
        self._work = _Work("", self._caller)

    async def run(self) -> None:
        """Answer until the client leaves.

        Raises:
            ConnectionResetError: the client is gone, or does not read.
        """
        try:
            while (event := await self._next()) is not None:
                await self._unless_wrong(self._take(event))
        finally:
            if self._speaking is not None:
                await cancelled(self._speaking)
            if self._hearing is not None:
                self._work.log(499)
                await self._hearing.close()

    async def _next(self) -> Event | None:
        try:
            return await self._events.next()
        except Exception as error:
            await self._fail(error)
            return None

    async def _unless_wrong(self, work: Awaitable[None]) -> None:
        """Do work; send its error, after which the connection goes on."""
        try:
            await work
        except ConnectionResetError:
            raise
        except Exception as error:
            left, self._hearing = self._hearing, None
            self._is_refused = left is not None or self._is_refused
            if left is not None:
                await left.close()
            await self._fail(error)

    async def _fail(self, error: Exception) -> None:
        found = api_error(error)
        self._work.log(found.status, found)
        await self._events.send(Error(str(found), found.code))

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
                self._is_refused = False
                await self._begin_to_hear(AudioStart.from_event(event).rate)
            elif AudioChunk.is_type(kind):
                await self._hear(AudioChunk.from_event(event))
            elif AudioStop.is_type(kind):
                await self._finish_hearing()
            elif Synthesize.is_type(kind):
                await self._speak(Synthesize.from_event(event))
            elif SynthesizeStart.is_type(kind):
                await self._begin_to_speak(SynthesizeStart.from_event(event))
            elif SynthesizeChunk.is_type(kind):
                text = str(SynthesizeChunk.from_event(event).text)
                check_waiting(self._pieces.num_waiting + len(text))
                self._pieces.add(text)
            elif SynthesizeStop.is_type(kind):
                await self._finish_speaking()
        except KeyError as error:
            raise invalid(None, f"the event {kind} lacks {error}") from None

    async def _describe(self) -> None:
        gateway = self._gateway
        names, voices = (DEFAULT_MODEL, *gateway.servers.models), await served_voices(gateway)
        await self._events.send(described(gateway.config.languages, names, voices))

    async def _begin_to_hear(self, rate: object) -> None:
        if self._hearing is not None:
            raise invalid(None, "audio-start comes once before audio-stop")
        self._work = _Work(hearing.ROUTE, self._caller)
        self._is_refused = True
        options = hearing.options_asked(
            self._asked, self._gateway.model_aliases, self._gateway.config.languages
        )
        self._rate = checked_rate(rate)
        hears = Hearing(
            *(self._gateway, self._caller, self._events, options, self._rate, self._work.request_id)
        )
        await hears.open()
        self._hearing, self._is_refused = hears, False

    async def _hear(self, chunk: AudioChunk) -> None:
        if self._is_refused:
            return
        if self._hearing is None:
            await self._begin_to_hear(chunk.rate)
        if chunk.rate != self._rate:
            raise invalid("rate", f"rate stays as it was, {self._rate}; sent: {chunk.rate!r:.40}")
        assert self._hearing is not None
        self._hearing.hear(samples_of(chunk.audio, chunk))

    async def _finish_hearing(self) -> None:
        self._is_refused, self._asked = False, Transcribe()
        if self._hearing is None:
            return
        try:
            await self._gateway.unless_broken_off(self._hearing.finish())
            self._work.log(200)
        finally:
            if self._hearing is not None:
                await self._hearing.close()
            self._hearing = None

    async def _speak(self, asked: Synthesize) -> None:
        # With a text in pieces it comes too, for servers that take no pieces.
        if self._speaking is not None:
            return
        self._work = _Work(speaking.ROUTE, self._caller)
        options = speaking.options_asked(asked.voice, asked.text_format)
        await speaking.speak(
            *(self._gateway, self._caller, self._events, str(asked.text), options),
            self._work.request_id,
        )
        self._work.log(200)

    async def _begin_to_speak(self, asked: SynthesizeStart) -> None:
        if self._speaking is not None:
            raise invalid(None, "synthesize-start comes once before synthesize-stop")
        self._work, self._pieces = _Work(speaking.ROUTE, self._caller), TextPieces()
        options = speaking.options_asked(asked.voice, asked.text_format)
        self._speaking = asyncio.create_task(
            speaking.speak(
                *(self._gateway, self._caller, self._events, self._pieces.each(), options),
                self._work.request_id,
            )
        )

    async def _finish_speaking(self) -> None:
        if self._speaking is None:
            return
        self._pieces.end()
        speaks, self._speaking = self._speaking, None
        try:
            await self._gateway.unless_broken_off(speaks)
            self._work.log(200)
        finally:
            await self._events.send(SynthesizeStopped())


class _Work:
    """A command or a text: what the access log and the metrics tell of it."""

    def __init__(self, route: str, caller: Caller) -> None:
        self.request_id = made_id()
        self._route, self._caller, self._began = route, caller, time.monotonic()

    def log(self, status: int, error: ApiError | None = None) -> None:
        """Log what became of it."""
        log_answer(
            *(self.request_id, "TCP", self._route or "wyoming", status, self._caller.name),
            time.monotonic() - self._began,
            error=error,
            is_cancelled=status == 499,
        )
