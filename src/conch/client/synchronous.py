"""The client for plain, blocking code."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from conch.client import tensors
from conch.client.address import DEFAULT_URL
from conch.client.asynchronous import AsyncClient
from conch.client.live import RESUME_S, LiveStream
from conch.client.portal import Portal
from conch.wire.errors import ConchError
from conch.wire.result import Transcript


class Client:
    """Send audio to a Conch server, or to a gateway in front of some, and wait for the transcript.

    Nothing is sent before the first call, so the server may start later. Over HTTP the first call
    asks whether a Triton or a gateway answers. Both give the same transcripts and errors.

    Threads may share a client. It runs an `AsyncClient` in a thread of its own, from the first call
    to `close`.

    Args:
        url: `host:port`, or `http://`, `https://`, `grpc://` or `grpcs://` in front of it.
        timeout_s: seconds until a call without a `timeout_s` of its own gives up.
        api_key: key of the gateway or of a proxy, sent as `Authorization: Bearer`; None takes that
            of the environment variable CONCH_API_KEY.
        headers: headers of every request, for a proxy; gRPC sends them as metadata. One named
            Authorization takes the place of the key.

    Raises:
        ServerError: `url` is not the URL of a server, or a header cannot be sent.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_s: float = tensors.DEFAULT_TIMEOUT_S,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._client = AsyncClient(url, timeout_s=timeout_s, api_key=api_key, headers=headers)
        self._portal = Portal(self._client.close)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._portal.close()

    def transcribe(
        self,
        audio: tensors.Audio,
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        model: str = "speech",
        request_id: str = "",
        **options: tensors.OptionValue,
    ) -> Transcript:
        """Transcribe one audio.

        Args:
            audio: the path of an audio file, the bytes of one, or a mono waveform [N] of floats in
                [-1, 1], int16 or int32.
            sample_rate: Hz of a waveform; a file has its own.
            timeout_s: seconds until the client and the server give up.
            model: name of the entry point on the server; a gateway has no other.
            request_id: id in the server's log and traces.
            options: options of the request, by name, such as `nbest=3`.

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
        transcribed = self._client.transcribe(
            audio,
            sample_rate=sample_rate,
            timeout_s=timeout_s,
            model=model,
            request_id=request_id,
            **options,
        )
        return self._portal.run(transcribed)

    def transcribe_batch(
        self,
        audios: Sequence[bytes] | Sequence[NDArray[Any]] | Sequence[str],
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        model: str = "speech",
        request_id: str = "",
        **options: tensors.OptionValue,
    ) -> list[Transcript]:
        """Transcribe several audios, all waveforms or all files, in one request.

        Arguments and errors are those of `transcribe`. The transcripts are in the order of
        `audios`. One bad audio fails the whole batch. Send audios that may be bad one by one. A
        gateway takes one audio in a request, and gets several at the same time.
        """
        transcribed = self._client.transcribe_batch(
            audios,
            sample_rate=sample_rate,
            timeout_s=timeout_s,
            model=model,
            request_id=request_id,
            **options,
        )
        return self._portal.run(transcribed)

    def stream(
        self,
        audio: tensors.Audio,
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        model: str = "speech_stream",
        request_id: str = "",
        **options: tensors.OptionValue,
    ) -> Generator[Transcript, None, None]:
        """Transcribe one audio; yield a transcript of each segment as soon as it is final.

        Arguments and errors are those of `transcribe`. The last transcript has no segment. It holds
        the duration, the path and the timings of the whole audio. `joined_parts` joins all
        transcripts to the one that `transcribe` returns.

        Leaving the loop cancels the request on the server. `contextlib.closing` does so even if
        another reference to the iterator exists.

        Raises:
            ServerError: a Triton over HTTP has no streams, or one of the reasons of `transcribe`.
        """
        parts = self._client.stream(
            audio,
            sample_rate=sample_rate,
            timeout_s=timeout_s,
            model=model,
            request_id=request_id,
            **options,
        )
        return self._portal.each(parts)

    def live(
        self,
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        model: str = "speech",
        request_id: str = "",
        keep_segments: bool = True,
        resume_s: float = RESUME_S,
        on_loss: Callable[[ConchError], None] = lambda error: None,
        **options: tensors.OptionValue,
    ) -> LiveStream:
        """Open a live stream. Nothing is sent before the first chunk.

        If its server is lost or has lost the stream, it goes on in another stream by itself: the
        audio since shortly before the last firm word is sent again, at most the last 180 s. Firm
        text stays as it is. Times and indices go on.

        Args:
            sample_rate: Hz of the chunks.
            timeout_s: seconds until the client gives up on a chunk.
            model: name of the entry point on the server.
            request_id: id of every chunk in the server's log and traces.
            keep_segments: whether to keep the utterances of all answers, so that `finish` returns
                them all. A day has 15,000: 10 MB, or 50 MB with the times of their words.
            resume_s: seconds that a chunk looks for a server after one was lost, at most
                `timeout_s`; 0 raises the error instead.
            on_loss: is called with the error by which a server was lost, before another one is
                looked for; `stream.resumptions` shows how it went on.
            options: options of the whole stream, by name; `mode="streaming"` costs less and leaves
                Whisper out.

        Raises:
            OptionError: an option is unknown, mistyped or out of range.
        """
        stream = self._client.live(
            sample_rate=sample_rate,
            timeout_s=timeout_s,
            model=model,
            request_id=request_id,
            keep_segments=keep_segments,
            resume_s=resume_s,
            on_loss=on_loss,
            **options,
        )
        return LiveStream(self._portal, stream)

    def is_ready(self, model: str = "speech", *, timeout_s: float = 5.0) -> bool:
        """Return whether the server takes requests for a model.

        Args:
            model: name of the model; each component is one too. A gateway says only whether it
                takes requests.
            timeout_s: seconds to wait for the answer.

        Raises:
            ServerError: the server cannot be reached, or does not answer in time.
        """
        return self._portal.run(self._client.is_ready(model, timeout_s=timeout_s))
