"""The open live streams: find the stream of a chunk, and end streams."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from conch.audio.blocks import LiveAudio
from conch.bls.call import Components, Deadline
from conch.bls.metrics import REFUSED
from conch.bls.runtime import Runtime
from conch.bls.service import NO_MODE, AccessRecord
from conch.component import SAMPLE_RATE, Array
from conch.recognition.config import RecognitionConfig
from conch.recognition.live.scheduling import LoadMeter, PassQueue, SharedPasses
from conch.recognition.live.sending_speed import Arrivals
from conch.recognition.live.stream import StreamRecognizer
from conch.recognition.metrics import AUDIO_SECONDS, CHUNKS, STREAMS_ENDED
from conch.recognition.request import RecognitionRequest
from conch.wire.errors import (
    AudioError,
    InvalidRequestError,
    OptionError,
    OverloadedError,
    SessionError,
)
from conch.wire.named_models import with_its_decoder
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis, Transcript

logger = logging.getLogger(__name__)

Options = Mapping[str, Any]
"""Options of a request by name, not checked yet."""

SESSION = "session"
"""Request parameter that separates the streams of two clients with the same sequence id."""
MAX_SESSION = 128
"""Characters of a session, as of a sequence id in Triton."""
ABANDON = "abandon"
"""Request parameter of an END whose text no one reads: the open utterance is dropped."""
LEAST_S = 0.1
"""Seconds that a waiting chunk counts for at least: it takes more than its samples."""


class StreamName(NamedTuple):
    model: str
    """Name of the requested model; each model has its own sequence ids."""
    stream_id: int | str
    """The client's sequence id."""
    session: str | None
    """The client's session, None without one. Whoever does not know it cannot reach the stream."""


@dataclass(slots=True)
class _Open:
    name: StreamName
    stream: StreamRecognizer
    record: AccessRecord
    parameters: Mapping[str, int]
    """Hashes of the parameters of START, some of which are long."""
    clock: Callable[[], float]
    used: float
    """When its last chunk was answered."""
    audio_s: float = 0.0
    arrivals: Arrivals = field(default_factory=Arrivals)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by one chunk after the other, in the order of their arrival."""
    waiting_s: float = 0.0
    """Seconds of audio in chunks without an answer."""
    waiting: int = 0
    is_closed: bool = False

    @contextmanager
    def in_line(self, num_samples: int, most_s: float) -> Iterator[None]:
        """Count a chunk as waiting until the end of the block.

        Raise an OverloadedError if others wait, and more than `most_s` seconds of audio with this
        one.
        """
        seconds = max(LEAST_S, num_samples / self.stream.audio.sample_rate)
        if self.waiting and self.waiting_s + seconds > most_s:
            raise OverloadedError(
                f"{self.waiting_s:.1f} s of the stream wait to be heard, and this chunk has "
                f"{seconds:.1f} s; this server takes {most_s:g} s (parameter max_waiting_s of the "
                "model): the stream has ended"
            )
        self.waiting += 1
        self.waiting_s += seconds
        try:
            yield
        finally:
            self.waiting -= 1
            self.waiting_s -= seconds
            self.used = self.clock()


class OpenStreams:
    """The open live streams, by the client's sequence id and session.

    A stream ends with END, with another START of its name, with an error of a component, or after
    `stream_ttl_s` without a chunk. Its end frees the components' state of it: at once, if no one
    reads the last text.
    """

    def __init__(
        self, config: RecognitionConfig, runtime: Runtime, clock: Callable[[], float]
    ) -> None:
        self._config, self._runtime, self._metrics = config, runtime, runtime.metrics
        self._shared = SharedPasses(
            PassQueue(config.max_passes_in_flight), LoadMeter(config.stream_step_ms / 1000), clock
        )
        self._clock = clock
        self._open: dict[StreamName, _Open] = {}
        self._closing: set[asyncio.Task[None]] = set()
        """Tasks that free the components' state of ended streams."""
        self._sweeper: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    @property
    def stretch(self) -> float:
        """How much rarer rolling passes are than asked for, because of load."""
        return self._shared.load.pace.stretch

    async def close(self, timeout_s: float) -> None:
        """Stop the expiry of streams, and wait until ended streams are freed."""
        if self._sweeper:
            self._sweeper.cancel()
        for entry in self._open.values():
            self._log(entry, None, "unloaded")
        if closing := set(self._closing):
            await asyncio.wait(closing, timeout=timeout_s)
        for task in closing:
            task.cancel()
        await asyncio.gather(*closing, return_exceptions=True)

    async def recognize(self, request: RecognitionRequest, components: Components) -> Transcript:
        """Return the transcript after one chunk, or raise a TranscriptionError.

        An error of the chunk itself leaves the stream open. Any other error ends it.
        """
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep())
        with (
            self._metrics.answering(CHUNKS, NO_MODE) as labels,
            # First, so that a chunk beyond the limit is refused and its stream goes on.
            self._runtime.admission.holding(request.num_bytes),
        ):
            try:
                name, options, is_abandoned = _read(request)
                entry = (
                    self._started(name, request, options) if request.starts else self._known(name)
                )
            except Exception as error:
                AccessRecord(request.request_id, request.model).log(error)
                raise
            labels["mode"] = entry.stream.options.mode
            entry.record.fields["chunks"] += 1
            if is_abandoned:
                self._close(entry, "abandoned")
                return _nothing(entry.audio_s)
            try:
                answer = await self._answer(entry, request, options, components)
            except BaseException as error:
                self._close(entry, "error", error)
                raise
            if isinstance(answer, InvalidRequestError):
                if request.starts or request.ends:
                    self._close(entry, "error", answer)
                raise answer
            return answer

    async def _answer(
        self, entry: _Open, request: RecognitionRequest, options: Options, components: Components
    ) -> Transcript | InvalidRequestError:
        """Answer a chunk after those before it. An error ends the stream, unless it is returned.

        A chunk that is wrong in itself is refused as a whole.
        """
        stream_options = entry.stream.options
        deadline = Deadline(stream_options.deadline_ms, started=request.arrived)
        calls = self._runtime.live_calls(
            components, stream_options.mode, deadline, stream_options.model
        )
        arrived = self._clock()
        with entry.in_line(request.chunk_samples, self._config.max_waiting_s):
            async with calls.limited(), entry.turn:
                if entry.is_closed:
                    raise _unknown(entry.name)
                try:
                    steps, seconds = self._steps(entry, request, options)
                except InvalidRequestError as error:
                    return error
                entry.arrivals.add(seconds, arrived)
                transcript = await entry.stream.recognize(
                    steps,
                    calls,
                    ends=request.ends,
                    repeats_text=request.repeats_text,
                    pause_ms=None if seconds else entry.arrivals.pause_ms(arrived),
                )
                entry.record.called(transcript.stages)
                if request.ends:
                    self._close(entry, "end")
                return transcript

    def _steps(
        self, entry: _Open, request: RecognitionRequest, options: Options
    ) -> tuple[Sequence[tuple[Array, bool]], float]:
        """Check a chunk and return its steps, as of `LiveAudio.steps`, and its seconds.

        Raise an InvalidRequestError if the chunk is refused; the stream is unchanged.
        """
        for name, value in options.items():
            if name not in entry.parameters or entry.parameters[name] != hash(value):
                raise OptionError(
                    f"option '{name}' can be chosen with START only; the stream is under way"
                )
        rate = entry.stream.audio.sample_rate
        if request.sample_rate_sent not in (None, rate):
            raise AudioError(
                f"SAMPLE_RATE can be chosen with START only: it is {rate}; "
                f"sent: {request.sample_rate_sent}"
            )
        chunk = request.chunk()
        seconds = len(chunk) / rate
        if seconds > self._config.max_chunk_s:
            raise AudioError(
                f"the chunk is {seconds:.1f} s long; this server takes at most "
                f"{self._config.max_chunk_s:g} s (parameter max_chunk_s of the model)"
            )
        if entry.audio_s + seconds > self._config.max_stream_s:
            raise AudioError(
                f"the stream would be longer than {self._config.max_stream_s:g} s "
                "(parameter max_stream_s of the model): end it and start another"
            )
        steps = entry.stream.audio.steps(chunk, ends=request.ends)
        entry.audio_s += seconds
        self._metrics.add(AUDIO_SECONDS, seconds, mode=entry.stream.options.mode)
        return steps, seconds

    def _started(self, name: StreamName, request: RecognitionRequest, parameters: Options) -> _Open:
        runtime = self._runtime
        chosen = with_its_decoder(parameters, runtime.named, runtime.decoder, live=True)
        options, others = RecognitionOptions.choices(chosen, live=True)
        before = self._open.get(name)
        if before is None and len(self._open) >= self._config.max_streams:
            self._metrics.add(REFUSED, reason="streams")
            raise OverloadedError(
                f"{len(self._open)} streams are open, as many as this server takes "
                "(parameter max_streams of the model); try again"
            )
        rate = SAMPLE_RATE if request.sample_rate_sent is None else request.sample_rate_sent
        stream = StreamRecognizer(
            options,
            LiveAudio(rate, self._config.stream_step_ms * SAMPLE_RATE // 1000),
            self._runtime.live_calls(self._runtime.detached, options.mode, model=options.model),
            self._config,
            self._shared,
            others,
        )
        record = AccessRecord(request.request_id, request.model, options.mode)
        record.fields["chunks"] = 0
        hashes = {name: hash(value) for name, value in parameters.items()}
        entry = _Open(name, stream, record, hashes, self._clock, self._clock())
        if before is not None:
            self._close(before, "restart")
        self._open[name] = entry
        return entry

    def _known(self, name: StreamName) -> _Open:
        entry = self._open.get(name)
        if entry is None:
            raise _unknown(name)
        # The sweep is up to a quarter of the time late, and the components may expire before it.
        if self._is_abandoned(entry):
            self._close(entry, "expired")
            raise _unknown(name)
        return entry

    def _close(self, entry: _Open, how: str, error: BaseException | None = None) -> None:
        """End a stream: at once for its client, and after the present chunk for the components."""
        if self._open.get(entry.name) is entry:
            del self._open[entry.name]
        if not entry.is_closed:
            entry.is_closed = True
            self._metrics.add(STREAMS_ENDED, how=how)
            self._log(entry, error, "ok" if how == "end" else how)
            self._closing.add(closing := asyncio.create_task(self._freed(entry)))
            closing.add_done_callback(self._closing.discard)

    def _log(self, entry: _Open, error: BaseException | None, outcome: str) -> None:
        entry.record.mode = entry.stream.options.mode
        entry.record.audio_s = entry.audio_s
        entry.record.log(error, outcome)

    async def _freed(self, entry: _Open) -> None:
        try:
            async with entry.turn:
                await entry.stream.close()
        except Exception:
            logger.exception("the state of a stream could not be freed")

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._config.stream_ttl_s / 4)
            try:
                for entry in [*self._open.values()]:
                    if self._is_abandoned(entry):
                        logger.info("stream %s has expired", entry.name.stream_id)
                        self._close(entry, "expired")
            except Exception:  # the next round must run in any case
                logger.exception("streams that are abandoned could not be ended")

    def _is_abandoned(self, entry: _Open) -> bool:
        idle_s = self._clock() - entry.used
        return idle_s > self._config.stream_ttl_s and not entry.waiting


def _unknown(name: StreamName) -> SessionError:
    return SessionError(f"session {name.stream_id} is expired or unknown; send START")


def _read(request: RecognitionRequest) -> tuple[StreamName, Options, bool]:
    """Return which stream a chunk belongs to, its options, and whether no one reads the last text.

    Raise an OptionError if the session is too long, or ABANDON is not true or not with END alone.
    """
    options = dict(request.parameters)
    sent, abandons = options.pop(SESSION, None), options.pop(ABANDON, None)
    session = None if sent is None else str(sent)
    if session is not None and len(session) > MAX_SESSION:
        raise OptionError(
            f"option '{SESSION}' takes at most {MAX_SESSION} characters; sent: {len(session)}"
        )
    is_sent = ABANDON in request.parameters
    if is_sent and (abandons is not True or request.starts or not request.ends):
        raise OptionError(
            f"parameter '{ABANDON}' takes true, with END alone; sent: {abandons!r:.50}"
        )
    return StreamName(request.model, request.stream_id, session), options, is_sent


def _nothing(seconds: float) -> Transcript:
    """Return the last answer of a stream that is abandoned; `seconds` is its audio."""
    nbest = (Hypothesis("", 0.0, 0.0),)
    return Transcript(nbest, (), round(seconds, 3), (), {}, is_final=True)
