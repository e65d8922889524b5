"""The port of the Wyoming protocol: its connections, and the answer to each event of a client."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from wyoming.asr import Transcribe
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import AsrModel, AsrProgram, Attribution, Describe, Info, TtsProgram, TtsVoice
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
)

from conch import __version__
from conch.audio.limits import check_rate
from conch.client.aio import timeout, within
from conch.families.family import Voice
from conch.gateway.errors import ApiError, api_error, invalid
from conch.gateway.held import held
from conch.gateway.live_audio import check_samples
from conch.gateway.live_session import LiveSession
from conch.gateway.metrics import log_answer
from conch.gateway.models import DEFAULT_MODEL
from conch.gateway.service import keep_alive
from conch.gateway.state import Caller, Gateway
from conch.gateway.voicing import TextPieces, check_waiting, served_voices
from conch.gateway.wyoming import recognition, synthesis
from conch.gateway.wyoming.events import Events, samples_of
from conch.wire.access import made_id
from conch.wire.errors import ServerError
from conch.wire.hosts import host_port

logger = logging.getLogger(__name__)

CONNECTIONS_A_SESSION = 4
"""Connections for each live session that may be open: clients keep some that are idle."""

_CONCH = Attribution("Conch", "https://pypi.org/project/conch")


@asynccontextmanager
async def listening(gateway: Gateway, host: str, port: int) -> AsyncIterator[int]:
    """Serve inside the block and yield the port; raise a ServerError if it cannot be opened."""
    running: set[asyncio.Task[None]] = set()
    most = CONNECTIONS_A_SESSION * gateway.config.max_sessions

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(running) >= most:
            writer.close()
            return
        running.add(task)
        try:
            events = Events(reader, writer, gateway.config.times.send_s)
            await WyomingConnection(gateway, events).run()
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client is gone, or the gateway stops
        except Exception:
            logger.exception("a Wyoming connection has failed")
        finally:
            running.discard(task)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    try:
        server = await asyncio.start_server(answer, host, port)
    except OSError as error:
        raise ServerError(
            f"Wyoming cannot listen on {host_port(host, port)}: {error.strerror}; another address "
            "is given by --wyoming HOST:PORT; port 0 takes any free port"
        ) from None
    keep_alive(server, gateway.config.times.ping_s)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in [*running]:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class WyomingConnection:
    """Answers the events of one client, one after the other."""

    def __init__(self, gateway: Gateway, events: Events) -> None:
        self._gateway, self._events = gateway, events
        # The protocol has no keys.
        self._caller: Caller = gateway.caller(None)
        self._settings = Transcribe()
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
        # None is no limit, and needs no message.
        message = f"no event has come for {idle_s or 0:g} s; begin again"
        async with within(idle_s, ApiError(408, message, code="timeout")):
            event = await self._events.next()
        self._has_left = event is None
        return event

    async def _unless_wrong(self, answering: Coroutine[Any, Any, None]) -> None:
        """Answer; send an error, after which the connection goes on."""
        status, failure = 200, None
        outer, self._work = self._work, None
        try:
            await answering
            status = 499 if self._has_left else 200
        except (ConnectionError, asyncio.CancelledError):
            status = 499
            raise
        except Exception as error:
            failure = api_error(error)
            status = failure.status
            await self._events.send(Error(str(failure), failure.code))
        finally:
            work, self._work = self._work, outer
            if failure is not None or work is not None:
                (work or _Work("wyoming", self._caller)).log(status, failure)

    async def _take(self, event: Event) -> None:
        """Do what an event asks for; unknown ones are for other services of the protocol."""
        event_type = event.type
        try:
            if Describe.is_type(event_type):
                await self._describe()
            elif Ping.is_type(event_type):
                await self._events.send(Pong(Ping.from_event(event).text))
            elif Transcribe.is_type(event_type):
                self._settings = Transcribe.from_event(event)
            elif AudioStart.is_type(event_type):
                await self._hear(AudioStart.from_event(event).rate)
            elif AudioChunk.is_type(event_type) and not self._is_refused:
                await self._hear(AudioChunk.from_event(event).rate, event)
            elif AudioStop.is_type(event_type):
                if not self._is_refused:
                    await recognition.send_text(self._events)
                self._is_refused, self._settings = False, Transcribe()
            elif Synthesize.is_type(event_type):
                await self._speak(Synthesize.from_event(event))
            elif SynthesizeStart.is_type(event_type):
                await self._speak_pieces(SynthesizeStart.from_event(event))
            elif SynthesizeStop.is_type(event_type):
                self._is_writing = False
        except KeyError as error:
            raise invalid(None, f"the event {event_type} lacks {error}") from None

    async def _describe(self) -> None:
        gateway = self._gateway
        names, voices = (DEFAULT_MODEL, *gateway.servers.models), await served_voices(gateway)
        await self._events.send(described(gateway.config.languages, names, voices))

    async def _hear(self, rate: int, first: Event | None = None) -> None:
        """Hear a command from its start, or its first chunk, to its end."""
        self._work = _Work(recognition.ROUTE, self._caller)
        self._is_refused = True
        options = recognition.parse_options(
            self._settings, self._gateway.model_aliases, self._gateway.config.languages
        )
        check_rate(rate, "rate")

        async def read(live: LiveSession) -> bool:
            event = first or await self._next(self._idle_s)
            while event is not None:
                if AudioStop.is_type(event.type):
                    self._is_refused, self._settings = False, Transcribe()
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

        await recognition.hear(
            *(self._gateway, self._caller, self._events, options, rate, self._work.request_id),
            read,
        )

    async def _speak(self, request: Synthesize) -> None:
        # With a text in pieces it comes too, for servers that take no pieces.
        if self._is_writing:
            return
        self._work = _Work(synthesis.ROUTE, self._caller)
        options = synthesis.parse_options(request.voice, request.text_format)
        await synthesis.speak(
            *(self._gateway, self._caller, self._events, request.text or "", options),
            self._work.request_id,
        )

    async def _speak_pieces(self, request: SynthesizeStart) -> None:
        """Speak a text that is still written, to its end."""
        self._work, pieces = _Work(synthesis.ROUTE, self._caller), TextPieces()
        self._is_writing = True
        options = synthesis.parse_options(request.voice, request.text_format)

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

        sending = synthesis.speak(
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


def described(languages: Iterable[str], models: Iterable[str], voices: Iterable[Voice]) -> Info:
    """Return the services: recognition with its models, and speech if there are voices."""
    about: dict[str, Any] = {"attribution": _CONCH, "installed": True, "version": __version__}
    asr = AsrProgram(
        name=DEFAULT_MODEL,
        description="Speech to text",
        models=[
            AsrModel(name=name, description=name, languages=[*languages], **about)
            for name in models
        ],
        supports_transcript_streaming=True,
        **about,
    )
    tts_voices = [
        TtsVoice(
            name=voice.name,
            description=f"{voice.name}: {voice.description}",
            languages=[voice.language],
            **about,
        )
        for voice in voices
    ]
    tts = TtsProgram(
        name=DEFAULT_MODEL,
        description="Text to speech",
        voices=tts_voices,
        supports_synthesize_streaming=True,
        **about,
    )
    return Info(asr=[asr], tts=[tts] if tts_voices else [])
