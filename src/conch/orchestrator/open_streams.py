"""The streams that are open: from a chunk's request to its stream, and how each of them ends."""

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from conch.errors import (
    AudioError,
    InvalidRequestError,
    OptionError,
    OverloadedError,
    SessionError,
)
from conch.options import RecognitionOptions
from conch.orchestrator.calls import Calls, Components, within_deadline
from conch.orchestrator.config import OrchestratorConfig
from conch.orchestrator.request import SpeechRequest
from conch.orchestrator.streaming import Stream
from conch.result import Transcript
from conch.segmentation import SAMPLE_RATE

logger = logging.getLogger(__name__)

SESSION = "session"
"""The request parameter that tells a client's chunks from those of another with its sequence id."""


@dataclass(slots=True)
class _Open:
    stream: Stream
    parameters: Mapping[str, Any]
    """As START sent them."""
    session: str
    used: float = field(default_factory=time.monotonic)
    heard_s: float = 0.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Chunks take it in the order in which they came."""
    is_closed: bool = False


class OpenStreams:
    """Every stream that has started and not ended, by the client's sequence id.

    A stream ends with END, with another START of its id, with an error of a component, and when no
    chunk has come for `stream_ttl_s`. Each of these frees what the components keep of it.
    """

    def __init__(self, config: OrchestratorConfig, detached: Components) -> None:
        """Have no stream yet.

        Args:
            config: limits.
            detached: the components, for calls that belong to no request.
        """
        self._config, self._detached = config, detached
        self._open: dict[int | str, _Open] = {}
        self._closing: set[asyncio.Task[None]] = set()
        """Streams that another START has replaced."""
        self._sweeper: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    async def hear(self, request: SpeechRequest, components: Components) -> Transcript:
        """Answer one chunk.

        Raises:
            TranscriptionError: the chunk cannot be answered; see `conch.errors`.
        """
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep())
        entry = self._started(request) if request.starts else self._known(request)
        async with entry.turn:
            if entry.is_closed:
                raise _unknown(request)
            entry.used = time.monotonic()
            try:
                return await self._answer(entry, request, components)
            except InvalidRequestError:
                # Nothing of the chunk has been taken: the client may send a better one.
                if request.starts:
                    await self._close(request.stream_id, entry)
                raise
            except BaseException:
                await self._close(request.stream_id, entry)
                raise
            finally:
                entry.used = time.monotonic()
                if request.ends:
                    await self._close(request.stream_id, entry)

    async def _answer(
        self, entry: _Open, request: SpeechRequest, components: Components
    ) -> Transcript:
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
        if entry.heard_s + seconds > self._config.max_stream_s:
            raise AudioError(
                f"the stream would be longer than {self._config.max_stream_s:g} s "
                "(parameter max_stream_s of the model): end it and start another"
            )
        entry.heard_s += seconds
        options = entry.stream.options
        calls = Calls(components, options.deadline_ms)
        async with within_deadline(options.deadline_ms, calls):
            return await entry.stream.hear(chunk, calls, ends=request.ends)

    def _started(self, request: SpeechRequest) -> _Open:
        options = RecognitionOptions.parse(_without_session(request.parameters), streams=True)
        before = self._open.get(request.stream_id)
        if before is None and len(self._open) >= self._config.max_streams:
            raise OverloadedError(
                f"{len(self._open)} streams are open, as many as this server takes "
                "(parameter max_streams of the model); try again"
            )
        rate = request.sample_rate_sent or SAMPLE_RATE
        step_samples = self._config.stream_step_ms * SAMPLE_RATE // 1000
        stream = Stream(options, rate, step_samples, Calls(self._detached, 0))
        session = request.parameters.get(SESSION) or secrets.token_hex(8)
        entry = _Open(stream, _without_session(request.parameters), str(session))
        self._open[request.stream_id] = entry
        if before is not None:
            self._closing.add(closing := asyncio.create_task(self._end_in_turn(before)))
            closing.add_done_callback(self._closing.discard)
        return entry

    def _known(self, request: SpeechRequest) -> _Open:
        entry = self._open.get(request.stream_id)
        session = request.parameters.get(SESSION)
        if entry is None or (session is not None and session != entry.session):
            raise _unknown(request)
        for name, value in _without_session(request.parameters).items():
            if name not in entry.parameters or entry.parameters[name] != value:
                raise OptionError(
                    f"option '{name}' can be chosen with START only; the stream is under way"
                )
        return entry

    async def _close(self, stream_id: int | str, entry: _Open) -> None:
        if self._open.get(stream_id) is entry:
            del self._open[stream_id]
        await self._end(entry)

    async def _end_in_turn(self, entry: _Open) -> None:
        async with entry.turn:  # behind the chunks that came before
            await self._end(entry)

    async def _end(self, entry: _Open) -> None:
        entry.is_closed = True
        await entry.stream.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._config.stream_ttl_s / 4)
            oldest = time.monotonic() - self._config.stream_ttl_s
            for stream_id, entry in list(self._open.items()):
                if entry.used < oldest and not entry.turn.locked():
                    logger.info("stream %s has expired", stream_id)
                    await self._close(stream_id, entry)


def _unknown(request: SpeechRequest) -> SessionError:
    return SessionError(f"session {request.stream_id} is expired or unknown; send START")


def _without_session(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name != SESSION}
