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
    """Sends audio to a Conch server and waits for the transcript.

    `url` is `host:port` or `http://`, `https://`, `grpc://` or `grpcs://` in front of it. Nothing
    is sent before the first call, so that a server may start later. `timeout_s` is the patience
    with a request that brings no `timeout_s` of its own.

    Threads: over gRPC one client may be shared between threads; over HTTP it belongs to the thread
    of its first call, and another thread gets a RuntimeError. For many requests at once on one
    thread there is `AsyncClient`.

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
        **options: tensors.OptionValue,
    ) -> Transcript:
        """Transcribe one audio.

        Args:
            audio: a path to an audio file or the bytes of one, in any format that the server
                reads (wav, flac, ogg, mp3, …), or a mono waveform [N]: floats in [-1, 1], int16
                or int32.
            sample_rate: of a waveform, in Hz; a file says its own.
            timeout_s: seconds until the client gives up, and the server with it.
            model: the entry point on the server.
            options: fields of `conch.wire.options.RecognitionOptions`; those not given are the
                server's defaults.

        Raises:
            AudioError: found before anything is sent.
            OptionError: found before anything is sent, or by the server.
            InvalidRequestError: by the server, what is wrong with the audio among it.
            DeadlineError: `timeout_s` or the option `deadline_ms` is spent.
            OverloadedError, ComponentError, RequestCancelledError: the server's answer.
            ServerError: no server there, or not one of Conch.
        """
        return self._infer([audio], sample_rate, timeout_s, model, options)[0]

    def transcribe_batch(
        self,
        audios: Sequence[bytes] | Sequence[NDArray[Any]] | Sequence[str],
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        model: str = "speech",
        **options: tensors.OptionValue,
    ) -> list[Transcript]:
        """Transcribe several audios, all waveforms or all files, in one request.

        The arguments are those of `transcribe`; the transcripts are in the order of `audios`. A
        request has one status, so that one bad audio is an error for the batch: send what should
        not fail together as requests of its own.
        """
        return self._infer(audios, sample_rate, timeout_s, model, options) if audios else []

    def stream(
        self,
        audio: tensors.Audio,
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        model: str = "speech_stream",
        **options: tensors.OptionValue,
    ) -> Generator[Transcript, None, None]:
        """Transcribe one audio; yield a transcript of each segment as soon as it is final.

        The arguments and errors are those of `transcribe`; an error is raised at the step at which
        it is known. The last transcript has no segment, but the figures of the whole: `duration`,
        `road` and `stages`; it is the only one where nobody speaks. `joined_parts` makes of all of
        them what `transcribe` returns.

        Closing the iterator before its end cancels the request, on the server too. CPython closes
        it when a `for` is left that holds the only reference; `contextlib.closing` does it for
        sure.

        Raises:
            ServerError: also where the client's URL is not gRPC.
        """
        request = self._request([audio], sample_rate, timeout_s, model, options)
        with closing(streams.stream(self._address, request)) as results:
            for result in results:
                yield tensors.transcripts(result, 1)[0]

    def live(
        self,
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        model: str = "speech",
        **options: tensors.OptionValue,
    ) -> LiveStream:
        """Open a stream for audio as it is spoken; nothing is sent before its first chunk.

        Args:
            sample_rate: of the chunks, in Hz.
            timeout_s: seconds until the client gives up on one chunk.
            model: the entry point on the server.
            options: as of `transcribe`, for the whole stream; `mode="two_pass"` corrects each
                utterance once it is over.

        Raises:
            OptionError: an option is unknown, mistyped or out of range.
        """
        return LiveStream(
            self._transport.infer,
            sample_rate=sample_rate,
            timeout_s=self._timeout_s if timeout_s is None else timeout_s,
            model=model,
            options=options,
        )

    def _infer(
        self,
        audios: Sequence[tensors.Audio],
        sample_rate: int,
        timeout_s: float | None,
        model: str,
        options: dict[str, tensors.OptionValue],
    ) -> list[Transcript]:
        request = self._request(audios, sample_rate, timeout_s, model, options)
        return tensors.transcripts(self._transport.infer(request), len(audios))

    def _request(
        self,
        audios: Sequence[tensors.Audio],
        sample_rate: int,
        timeout_s: float | None,
        model: str,
        options: dict[str, tensors.OptionValue],
    ) -> tensors.Request:
        return tensors.build(
            audios,
            sample_rate=sample_rate,
            model=model,
            timeout_s=timeout_s,
            default_timeout_s=self._timeout_s,
            options=options,
        )
