"""`Recognize` and `StreamingRecognize`: a recording, or audio as it is spoken, as text."""

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack

from conch.audio.encoding import wav_header
from conch.audio.intake import length_of
from conch.audio.sniffing import (
    NUM_NAMED_BYTES,
    container_of,
    named_container_of,
    num_first_bytes,
)
from conch.client import AsyncClient
from conch.client.timeouts import timeout
from conch.gateway.errors import ApiError, invalid, overloaded
from conch.gateway.held import charged_updates, held, live_session_of
from conch.gateway.live_audio import LiveFrames, Samples
from conch.gateway.riva.answers import LiveResults, results_of
from conch.gateway.riva.asked import CONTAINERS, RAW, Asked, asked_in
from conch.gateway.riva.calls import RpcCall
from conch.gateway.riva.protocol import Message
from conch.gateway.servers import SessionClient, asking
from conch.wire.errors import TranscriptionError, from_wire
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment, Transcript

DEFAULT_RATE = 16_000
"""Hz to which the audio of a container is decoded in a stream."""
_WAV = {"LINEAR_PCM": (1, 16), "ALAW": (6, 8), "MULAW": (7, 8)}
"""Format tag of WAV and bits of a sample, by encoding."""


async def recognize(call: RpcCall) -> None:
    gateway, request = call.gateway, await call.request()
    asked = asked_in(request.config, gateway.model_aliases, live=False)
    call.fields = asked.fields
    with gateway.file_of(call.caller, has_come=True):
        with gateway.uploads.taken(len(request.audio), call.caller.name, gateway.share):
            most_s = gateway.config.max_audio_s
            file = await asyncio.to_thread(_file_of, request.audio, asked, most_s)
            transcript = await _transcript(call, file, await _granted(call, asked, live=False))
        gateway.heard(call.caller, call.method.path, transcript.duration)
        call.warnings += transcript.warnings
        response = call.method.response(results=results_of(transcript, asked.options.nbest))
        await call.send(response)


async def _transcript(call: RpcCall, file: bytes, options: RecognitionOptions) -> Transcript:
    digest = await asyncio.to_thread(lambda: hashlib.sha256(file).hexdigest())

    async def ask(client: AsyncClient) -> Transcript:
        return await client.infer(asking(file, options, call.request_id))

    return await call.gateway.unless_broken_off(call.gateway.servers.answer(ask, digest))


async def _granted(call: RpcCall, asked: Asked, *, live: bool) -> RecognitionOptions:
    """Return the options of a request, without those that the server cannot do and may leave."""
    if not asked.wishes:
        return asked.options
    ready = await call.gateway.servers.ready_models(tuple(asked.wishes))
    lacking = {option: name for name, option in asked.wishes.items() if name not in ready}
    for option, name in lacking.items():
        call.warnings.append(f"{asked.fields[option]}: this server lacks {name}")
    rest = {name: value for name, value in asked.options.sent.items() if name not in lacking}
    return RecognitionOptions.parse(rest, live=live) if lacking else asked.options


def _container_of(first: bytes, asked: Asked) -> str | None:
    """Return FFmpeg's name of the container that audio begins with, None for raw samples.

    Raise an ApiError for another than OGGOPUS or FLAC, as was said, or raw samples without a rate;
    an AudioError for text, or another format without audio.
    """
    if asked.encoding in RAW:
        # Some clients say LINEAR_PCM of any file.
        container = named_container_of(first)
    else:
        container = container_of(first)
        wanted = CONTAINERS.get(asked.encoding, container)
        if container != wanted:
            begin = first[:8].hex(" ")
            message = f"the audio is no {asked.encoding}, it begins with {begin}; without encoding"
            raise invalid("encoding", f"encoding: {message}, its first bytes show what it is")
    if container is None and not asked.sample_rate:
        message = "sample_rate_hertz is needed for raw samples, which begin with no header; sent: 0"
        raise invalid("sample_rate_hertz", message)
    return container


def _file_of(audio: bytes, asked: Asked, max_audio_s: float) -> bytes:
    """Return audio as a file: raw samples become a WAV.

    Raise an ApiError if there is none, it is too long, or something else than was said; an
    AudioError for text, or another format without audio.
    """
    if not audio:
        raise invalid("audio", "audio takes a recording; sent: 0 bytes")
    if _container_of(audio[: num_first_bytes(audio[:16])], asked) is None:
        form = _WAV[asked.encoding or "LINEAR_PCM"]
        audio = wav_header(asked.sample_rate, len(audio), asked.num_channels, *form) + audio
    if max_audio_s:
        seconds = length_of(io.BytesIO(audio))
        if seconds is not None and seconds > max_audio_s:
            message = f"the audio has {seconds:.0f} s; this server takes at most {max_audio_s:g} s"
            raise ApiError(413, message, param="audio", code="audio_too_long")
    return audio


async def stream(call: RpcCall) -> None:
    gateway = call.gateway
    with gateway.session_of(call.caller, call.method.path):
        async with gateway.servers.reserved() as client:
            await gateway.unless_broken_off(_Stream(call).run(client))


class _Stream:
    """One `StreamingRecognize`."""

    def __init__(self, call: RpcCall) -> None:
        self._call, self._gateway = call, call.gateway
        self._requests = call.requests()
        self._frames: LiveFrames | None = None
        self._first = b""
        """First bytes, until they show the format."""

    async def run(self, client: SessionClient) -> None:
        """Answer to the end, or raise the ApiError or ConchError that ends the stream."""
        config = await self._config()
        self._asked = asked = asked_in(config.config, self._gateway.model_aliases, live=True)
        self._call.fields = asked.fields
        self._rate = asked.sample_rate or DEFAULT_RATE
        results = LiveResults(asked.options.nbest, has_interim=config.interim_results)
        options = await _granted(self._call, asked, live=True)
        self._live = live_session_of(
            self._gateway, client, options, self._rate, self._call.request_id
        )
        async with AsyncExitStack() as self._stack, self._live:
            stops = await held(self._gateway, self._send(results), self._read(), self._live.close)
        if stops:
            raise overloaded("this gateway is about to stop; open another stream")

    async def _config(self) -> Message:
        idle_s = self._gateway.config.times.idle_s
        try:
            async with timeout(idle_s):
                first = await anext(self._requests, None)
        except asyncio.TimeoutError:
            raise ApiError(408, f"no streaming_config came within {idle_s:g} s") from None
        if first is None or first.WhichOneof("streaming_request") != "streaming_config":
            kind = "nothing" if first is None else first.WhichOneof("streaming_request")
            message = "the first message of a stream takes streaming_config"
            raise invalid("streaming_config", f"{message}; sent: {kind}")
        self._check_runtime(first)
        return first.streaming_config

    @staticmethod
    def _check_runtime(request: Message) -> None:
        if request.runtime_config:
            names = ", ".join(sorted(request.runtime_config))
            message = "runtime_config takes nothing: options hold for the whole stream"
            raise invalid("runtime_config", f"{message}; sent: {names:.80}")

    async def _read(self) -> bool:
        """Read the audio of the client to its end; it then waits for its text."""
        async for request in self._requests:
            self._check_runtime(request)
            if request.WhichOneof("streaming_request") == "streaming_config":
                message = "streaming_config comes once, in the first message of a stream"
                raise invalid("streaming_config", message)
            await self._hear(request.audio_content)
        await self._hear(b"", ends=True)
        self._live.close()
        return True

    async def _hear(self, data: bytes, *, ends: bool = False) -> None:
        async for samples in self._decoded(data, ends=ends):
            await self._live.feed(samples)

    async def _decoded(self, data: bytes, *, ends: bool = False) -> AsyncIterator[Samples]:
        if self._frames is None:
            self._first = data = self._first + data
            is_raw = self._asked.encoding in RAW
            needed = NUM_NAMED_BYTES if is_raw else num_first_bytes(data)
            if not data or (len(data) < needed and not ends):
                return
            self._first = b""
            is_file = _container_of(data, self._asked) is not None
            encoding = "container" if is_file else RAW[self._asked.encoding or "LINEAR_PCM"]
            frames = LiveFrames(encoding, self._rate)
            self._frames = await self._stack.enter_async_context(frames)
        async for samples in self._frames.decoded(data, ends=ends):
            yield samples

    def _note_problems(self, segments: Iterable[Segment]) -> None:
        """Keep problems of texts as warnings; raise that of an utterance without any text."""
        for segment in segments:
            if segment.error and not segment.text:
                error = from_wire(f"{segment.error_code}: {segment.error}")
                raise error or TranscriptionError(segment.error)
            if segment.error and segment.error not in self._call.warnings:
                self._call.warnings.append(segment.error)

    async def _send(self, results: LiveResults) -> None:
        updates = charged_updates(
            self._live, self._gateway, self._call.caller, self._call.method.path
        )
        async for update in updates:
            if (response := results.after(update)) is not None:
                await self._call.send(response)
            self._note_problems(item.segment for item in update.segments if item.is_final)
