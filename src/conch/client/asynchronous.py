"""The client for asyncio, and the transport that it chooses by the URL and by who answers."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, TypeAlias

from numpy.typing import NDArray

from conch.client import tensors
from conch.client.endpoint import DEFAULT_URL, Endpoint
from conch.client.gateway import GatewayTransport, is_gateway
from conch.client.live import RESUME_S, AsyncLiveStream
from conch.client.speech import Speech, speech_requests, spoken_text, whole_of
from conch.client.triton_grpc import GrpcTransport
from conch.client.triton_http import HttpTransport
from conch.client.voices import File, fitting_request, voice_of, voices_of
from conch.fitted_voices import FittedVoice
from conch.wire.entry_points import SYNTHESIS, Health
from conch.wire.errors import ConchError
from conch.wire.result import Transcript

Transport: TypeAlias = GrpcTransport | HttpTransport | GatewayTransport
"""Sends any number of requests at the same time; leaving an answer in parts early cancels one.

Every method raises a `ConchError` if the server cannot be reached, is late, or answers with an
error; `stream` and `speak` a ServerError if the protocol has no answers in parts. After `close`,
requests in flight fail.
"""


class AsyncClient:
    """Send audio to a Conch server, or to a gateway in front of some, and await the transcript.

    Nothing is sent before the first call, so the server may start later. Over HTTP the first call
    asks whether a Triton or a gateway answers. Both give the same transcripts and errors.

    Any number of requests may be in flight. Cancelling the task that awaits a request cancels the
    request, over gRPC and by a gateway on the server too. A client belongs to the event loop of its
    first request.

    Args:
        url: `host:port`, or `http://`, `https://`, `grpc://` or `grpcs://` in front of it.
        timeout_s: Seconds until a call without a `timeout_s` of its own gives up.
        connections: HTTP connections at once, without those of live streams; gRPC has one.
        api_key: Key of the gateway or of a proxy, sent as `Authorization: Bearer`; None takes that
            of the environment variable CONCH_API_KEY.
        headers: Headers of every request, for a proxy; gRPC sends them as metadata. One named
            Authorization replaces the key.
        ca_cert: File of certificates (PEM) to trust, for a private authority; None takes that of
            the environment variable CONCH_CA_CERT, and without it those of the system.
        uploads: Requests above 1 MiB that are sent over gRPC at once, each of which takes twice its
            size meanwhile; None for no limit.

    Raises:
        ServerError: `url` is not the URL of a server, a header cannot be sent, or `ca_cert` has no
            certificate.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_s: float = tensors.DEFAULT_TIMEOUT_S,
        connections: int = 100,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        ca_cert: str | None = None,
        uploads: int | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._request = partial(tensors.build, default_timeout_s=timeout_s)
        endpoint = Endpoint.parse(url, api_key, headers, ca_cert)
        self._connect = partial(connect, endpoint, connections=connections, uploads=uploads)
        self._transport: Transport | None = None
        self._connecting = asyncio.Lock()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; requests in flight fail."""
        transport, self._transport = self._transport, None
        self._connecting = asyncio.Lock()  # another event loop may come
        if transport is not None:
            await transport.close()

    async def transcribe(
        self,
        /,
        audio: tensors.Audio,
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        entry_point: str = "speech",
        request_id: str = "",
        **options: tensors.OptionArgument,
    ) -> Transcript:
        """Transcribe one audio.

        Args:
            audio: Path of an audio file, the bytes of one, or a mono waveform [N] of floats in
                [-1, 1], int16 or int32.
            sample_rate: Hz of a waveform; a file has its own.
            timeout_s: Seconds until the client and the server give up.
            entry_point: Name of the entry point on the server; a gateway has no other.
            request_id: Id in the server's log and traces.
            **options: Options of the request, by name, such as `nbest=3`. `known_speakers` may be a
                list of `conch.client.speakers.known_speakers`, or a dict of paths by name.

        Raises:
            AudioError: the audio cannot be read or is no waveform; nothing was sent.
            OptionError: an option is unknown, mistyped or out of range.
            InvalidRequestError: the server refuses the audio.
            DeadlineError: `timeout_s` or the option `deadline_ms` is over.
            OverloadedError: the server is full.
            ComponentError: a component of the server failed.
            RequestCancelledError: the request was cancelled.
            ServerError: there is no server, or it is not one of Conch.
        """
        # In a thread, because this reads files.
        request = await asyncio.to_thread(
            self._request, [audio], sample_rate, timeout_s, entry_point, request_id, options
        )
        return await self.infer(request)

    async def transcribe_batch(
        self,
        /,
        audios: Sequence[bytes] | Sequence[NDArray[Any]] | Sequence[str],
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        entry_point: str = "speech",
        request_id: str = "",
        **options: tensors.OptionArgument,
    ) -> list[Transcript]:
        """Transcribe several audios, all waveforms or all files, in one request.

        Arguments and errors are those of `transcribe`. The transcripts are in the order of
        `audios`. One bad audio fails the whole batch: send audios that may be bad one by one. A
        gateway takes one audio in a request, and gets several at the same time.
        """
        if not audios:
            return []
        request = await asyncio.to_thread(
            self._request, audios, sample_rate, timeout_s, entry_point, request_id, options
        )
        return await (await self._connected(request.timeout_s)).infer(request)

    async def stream(
        self,
        /,
        audio: tensors.Audio,
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        entry_point: str = "speech_stream",
        request_id: str = "",
        **options: tensors.OptionArgument,
    ) -> AsyncGenerator[Transcript, None]:
        """Transcribe one audio; yield a transcript of each segment as soon as it is final.

        Arguments and errors are those of `transcribe`. The last transcript has no segment. It holds
        the duration, the path and the timings of the whole audio. `joined_parts` joins all
        transcripts to the one that `transcribe` returns.

        Leaving the loop cancels the request on the server: at the end of the block of
        `contextlib.aclosing`, or of `closing` with `Client`, and without one some time later.

        Raises:
            ServerError: a Triton over HTTP has no streams, or one of the reasons of `transcribe`.
        """
        request = await asyncio.to_thread(
            self._request, [audio], sample_rate, timeout_s, entry_point, request_id, options
        )
        async with aclosing(self.infer_parts(request)) as parts:
            async for part in parts:
                yield part

    async def synthesize_stream(
        self,
        /,
        text: str | Iterable[str] | AsyncIterable[str],
        *,
        timeout_s: float | None = None,
        entry_point: str = SYNTHESIS[1],
        request_id: str = "",
        **options: tensors.OptionValue,
    ) -> AsyncGenerator[Speech, None]:
        """Speak a text; yield its audio piece by piece, as soon as each is made.

        A text that is still written comes as an iterable of its pieces, cut anywhere: each sentence
        is spoken when it is complete. A plain iterable is read in a thread.

        A long text goes to the server in parts of a few sentences, each when the audio of the one
        before it is taken. So the server does not run far ahead of a slow reader. With a `format`
        other than pcm_f32 and pcm_s16 the text goes as one, when all of it is there.

        The last piece has no audio, or the end of a file, and the figures of all. Leaving the loop
        cancels the request, as with `stream`.

        Args:
            text: What to speak.
            timeout_s: Seconds until the client and the server give up, for each part.
            entry_point: Name of the entry point on the server.
            request_id: Id in the server's log and traces.
            **options: Fields of `conch.wire.synthesis.SynthesisOptions`, such as `speed=1.2`.

        Raises:
            TextError: the text is empty, too long, or nothing that the voice can speak.
            ConchError: one of the reasons of `transcribe`.
        """
        request = speech_requests(
            timeout_s, entry_point, request_id, options, default_timeout_s=self._timeout_s
        )
        transport = await self._connected(self._timeout_s if timeout_s is None else timeout_s)
        async with aclosing(spoken_text(transport.speak, request, text, options)) as pieces:
            async for piece in pieces:
                yield piece

    async def synthesize(
        self,
        /,
        text: str | Iterable[str] | AsyncIterable[str],
        *,
        timeout_s: float | None = None,
        entry_point: str = SYNTHESIS[0],
        request_id: str = "",
        **options: tensors.OptionValue,
    ) -> Speech:
        """Speak a text, and return all of its audio.

        Arguments and errors are those of `synthesize_stream`.
        """
        parts = self.synthesize_stream(
            text, timeout_s=timeout_s, entry_point=entry_point, request_id=request_id, **options
        )
        async with aclosing(parts) as pieces:
            return whole_of([part async for part in pieces])

    def live(
        self,
        /,
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        entry_point: str = "speech",
        request_id: str = "",
        keep_segments: bool = True,
        resume_s: float = RESUME_S,
        on_loss: Callable[[ConchError], None] = lambda error: None,
        **options: tensors.OptionArgument,
    ) -> AsyncLiveStream:
        """Open a live stream. Nothing is sent before the first chunk.

        If the server is lost or has lost the stream, this client goes on in another stream. It
        sends the audio since shortly before the last firm word again, at most the last 180 s. Firm
        text stays as it is; times and indices go on.

        Args:
            sample_rate: Hz of the chunks.
            timeout_s: Seconds until the client gives up on a chunk.
            entry_point: Name of the entry point on the server.
            request_id: Id of every chunk in the server's log and traces.
            keep_segments: Whether to keep the utterances of all answers, so that `finish` returns
                them all. A day has 15,000: 10 MB, or 50 MB with the times of their words.
            resume_s: Seconds that a chunk looks for a server after one was lost, at most
                `timeout_s`; 0 raises the error instead.
            on_loss: Called with the error by which a server was lost, before another one is looked
                for; `resumptions` of the stream shows how it went on.
            **options: Options of the whole stream, by name, as of `transcribe`; `mode="streaming"`
                costs less and leaves Whisper out.

        Raises:
            OptionError: an option is unknown, mistyped or out of range.
            AudioError: the audio of a known speaker cannot be read.
        """
        return AsyncLiveStream(
            self.infer,
            sample_rate=sample_rate,
            timeout_s=self._timeout_s if timeout_s is None else timeout_s,
            model=entry_point,
            request_id=request_id,
            keep_segments=keep_segments,
            resume_s=resume_s,
            on_loss=on_loss,
            options=options,
        )

    async def is_ready(self, model: str = "speech", *, timeout_s: float = 5.0) -> bool:
        """Return whether the server takes requests for a model.

        Args:
            model: Name of the model; each component is one too. A gateway says only whether it
                takes requests.
            timeout_s: Seconds to wait for the answer.

        Raises:
            ServerError: the server cannot be reached, or does not answer in time.
        """
        return await (await self._connected(timeout_s)).is_ready(model, timeout_s)

    async def health(self, model: str = "speech", *, timeout_s: float = 5.0) -> Health:
        """Return which components an entry point waits for, and which models it has.

        Raises:
            ConchError: the server cannot be reached, is late, or has no such answer.
        """
        return await (await self._connected(timeout_s)).health(model, timeout_s)

    async def fit_voice(
        self,
        /,
        name: str,
        files: Sequence[File],
        *,
        minutes: int = 10,
        consent: File | None = None,
        timeout_s: float | None = None,
    ) -> FittedVoice:
        """Begin to fit a voice to recordings of one person; return it as it is then.

        The server works on it for `minutes` at most, also without this client; `fitted_voice` says
        how far it is. Once its `curve` has a point, `voice=name` speaks with it.

        Args:
            name: Name of the new voice.
            files: 3 to 50 audio files: paths, or names and bytes.
            minutes: Most minutes of work, 1 to 120.
            consent: Recording of the sentence that the server may ask for.
            timeout_s: Seconds until the client gives up.

        Raises:
            OptionError: the server fits no voices, the name is taken, or `minutes` is wrong.
            AudioError: a file is no recording of one person, or of another person than the rest.
            ConchError: one of the reasons of `transcribe`.
        """
        asked = partial(self._voice, "start", name, timeout_s, minutes=minutes)
        return await asked(files=files, consent=consent)

    async def fitted_voice(self, /, name: str, *, timeout_s: float | None = None) -> FittedVoice:
        """Return a fitted voice, which may be in work; raise an OptionError if there is none."""
        return await self._voice("get", name, timeout_s)

    async def stop_fitting(self, /, name: str, *, timeout_s: float | None = None) -> FittedVoice:
        """End the work on a voice, which is kept as it is."""
        return await self._voice("stop", name, timeout_s)

    async def remove_voice(self, /, name: str, *, timeout_s: float | None = None) -> None:
        """Delete a fitted voice, also one in work; raise an OptionError if there is none."""
        await self._answer("remove", name, timeout_s)

    async def fitted_voices(self, /, *, timeout_s: float | None = None) -> list[FittedVoice]:
        """Return the fitted voices, also those in work, the oldest first."""
        return voices_of(await self._answer("list", "", timeout_s))

    async def _voice(
        self, action: str, name: str, timeout_s: float | None, **more: Any
    ) -> FittedVoice:
        return voice_of(await self._answer(action, name, timeout_s, **more))

    async def _answer(self, action: str, name: str, timeout_s: float | None, **more: Any) -> bytes:
        within_s = self._timeout_s if timeout_s is None else timeout_s
        request = await asyncio.to_thread(fitting_request, action, within_s, name, **more)
        return await (await self._connected(within_s)).ask(request)

    async def infer(self, request: tensors.Request) -> Transcript:
        """Send a request that is made already, of one audio or of one chunk."""
        return (await (await self._connected(request.timeout_s)).infer(request))[0]

    async def infer_parts(self, request: tensors.Request) -> AsyncGenerator[Transcript, None]:
        """Send a request of one audio that is made already; yield its parts as `stream` does."""
        transport = await self._connected(request.timeout_s)
        async with aclosing(transport.stream(request)) as parts:
            async for part in parts:
                yield part

    async def _connected(self, timeout_s: float) -> Transport:
        # Not in __init__: connections belong to the running event loop.
        async with self._connecting:
            if self._transport is None:
                self._transport = await self._connect(timeout_s=timeout_s)
            return self._transport


async def connect(
    endpoint: Endpoint, *, connections: int, timeout_s: float, uploads: int | None = None
) -> Transport:
    """Return the transport for a server; over HTTP, ask what answers there.

    There are at most so many `connections` over HTTP, and large `uploads` at once over gRPC. Raise
    a ServerError if nothing answers in time.
    """
    if endpoint.address.is_grpc:
        return GrpcTransport(endpoint, uploads)
    has_gateway = await asyncio.to_thread(is_gateway, endpoint, timeout_s)
    return (GatewayTransport if has_gateway else HttpTransport)(endpoint, connections)


def has_streams(endpoint: Endpoint) -> bool:
    """Return whether answers from a server can come in parts; False if it is not reached."""
    if endpoint.address.is_grpc:
        return True
    try:
        return is_gateway(endpoint)
    except ConchError:
        return False
