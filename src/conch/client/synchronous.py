"""The client for plain, blocking code."""

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any

from numpy.typing import NDArray

from conch.client import streams, tensors, transports
from conch.client.address import DEFAULT_URL, Address
from conch.client.live import LiveStream
from conch.wire.result import Transcript


class Client:
    """Send audio to a Conch server and wait for the transcript.

    Nothing is sent before the first call, so the server may start later.

    Over gRPC, threads may share a client. Over HTTP a client belongs to the thread of its first
    call, and another thread gets a RuntimeError. `AsyncClient` keeps many requests in flight.

    Args:
        url: `host:port`, or `http://`, `https://`, `grpc://` or `grpcs://` in front of it.
        timeout_s: seconds until a call without a `timeout_s` of its own gives up.

    Raises:
        ServerError: `url` is not the URL of a server.
    """

    def __init__(
        self, url: str = DEFAULT_URL, *, timeout_s: float = tensors.DEFAULT_TIMEOUT_S
    ) -> None:
        self._address = Address.parse(url)
        self._transport = transports.connect(self._address)
        self._timeout_s = timeout_s

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

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
            model: name of the entry point on the server.
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
        return self._infer([audio], sample_rate, timeout_s, model, request_id, options)[0]

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
        `audios`.
        One bad audio fails the whole batch. Send audios that may be bad one by one.
        """
        return (
            self._infer(audios, sample_rate, timeout_s, model, request_id, options)
            if audios
            else []
        )

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
            ServerError: the URL of the client is not gRPC, or one of the reasons of `transcribe`.
        """
        request = self._request([audio], sample_rate, timeout_s, model, request_id, options)
        with closing(streams.stream(self._address, request)) as results:
            for result in results:
                yield tensors.transcripts(result, 1)[0]

    def live(
        self,
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        model: str = "speech",
        request_id: str = "",
        **options: tensors.OptionValue,
    ) -> LiveStream:
        """Open a live stream. Nothing is sent before the first chunk.

        Args:
            sample_rate: Hz of the chunks.
            timeout_s: seconds until the client gives up on a chunk.
            model: name of the entry point on the server.
            request_id: id of every chunk in the server's log and traces.
            options: options of the whole stream, by name; `mode="streaming"` costs less and leaves
                Whisper out.

        Raises:
            OptionError: an option is unknown, mistyped or out of range.
        """
        return LiveStream(
            self._transport.infer,
            sample_rate=sample_rate,
            timeout_s=self._timeout_s if timeout_s is None else timeout_s,
            model=model,
            request_id=request_id,
            options=options,
        )

    def is_ready(self, model: str = "speech", *, timeout_s: float = 5.0) -> bool:
        """Return whether the server takes requests for a model.

        Args:
            model: name of the model; each component is one too.
            timeout_s: seconds to wait for the answer.

        Raises:
            ServerError: the server cannot be reached, or does not answer in time.
        """
        return self._transport.is_ready(model, timeout_s)

    def _infer(
        self,
        audios: Sequence[tensors.Audio],
        sample_rate: int,
        timeout_s: float | None,
        model: str,
        request_id: str,
        options: dict[str, tensors.OptionValue],
    ) -> list[Transcript]:
        request = self._request(audios, sample_rate, timeout_s, model, request_id, options)
        return tensors.transcripts(self._transport.infer(request), len(audios))

    def _request(
        self,
        audios: Sequence[tensors.Audio],
        sample_rate: int,
        timeout_s: float | None,
        model: str,
        request_id: str,
        options: dict[str, tensors.OptionValue],
    ) -> tensors.Request:
        return tensors.build(
            audios,
            sample_rate=sample_rate,
            model=model,
            timeout_s=timeout_s,
            default_timeout_s=self._timeout_s,
            request_id=request_id,
            options=options,
        )
