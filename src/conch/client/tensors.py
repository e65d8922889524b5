"""Convert audio and options to tensors, tensors to transcripts, and status codes to errors.

All transports use these functions, which know nothing of HTTP or gRPC. A file that cannot be read
or an array that is no waveform is an AudioError, a wrong option an OptionError.
"""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from conch.wire import foreign
from conch.wire.entry_points import HEALTH, ChunkPosition, Health
from conch.wire.errors import (
    AudioError,
    ComponentError,
    ConchError,
    DeadlineError,
    InvalidRequestError,
    OptionError,
    OverloadedError,
    ProcessLostError,
    RequestCancelledError,
    ServerError,
    ServerLostError,
    UnreachableError,
    from_wire,
    out_of_shared_memory,
)
from conch.wire.known_speakers import option_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Transcript

PIECE_BYTES = 1 << 20


class StoredFile:
    """An open audio file that is read when it is sent, over gRPC: until then it takes no memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = file.seek(0, os.SEEK_END)

    def __len__(self) -> int:
        return self._size

    def pieces(self) -> Iterator[bytes]:
        self._file.seek(0)
        while piece := self._file.read(PIECE_BYTES):
            yield piece


Audio: TypeAlias = str | os.PathLike[str] | bytes | StoredFile | NDArray[Any]
"""Path of an audio file, the bytes of one, or a waveform: mono samples [N], floats in [-1, 1] or
integers of 16 or 32 bits. Those of 16 bits take half the bytes of the others."""

OptionValue: TypeAlias = bool | int | float | str
"""A value of a field of `RecognitionOptions`."""

OptionArgument: TypeAlias = OptionValue | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""An `OptionValue`, or for `known_speakers` what stands for its text: see `values_of`."""

STREAM_HEADER = "conch-stream"
"""Header of a live chunk with the id of its stream, for a router in front of several servers: the
server reads the id in the body."""

DEFAULT_TIMEOUT_S = 3600.0
"""Seconds to wait for one request. Hours of audio take long, but a lost server must be noticed."""

LARGE_RESULT_BYTES = 1 << 20
"""Size of a transcript that takes milliseconds to read."""


class UnavailableError(OverloadedError):
    """Triton itself, or a proxy, takes no request now; Conch has said nothing.

    The server is about to stop, or there is none behind the proxy. A live stream is gone with it.
    """


@dataclass(frozen=True, slots=True)
class Request:
    """One inference request, independent of the transport."""

    model: str
    inputs: Mapping[str, NDArray[Any]]
    """Tensors by name: FP32, INT16 and INT32 as numbers, BYTES as objects of type bytes."""
    parameters: Mapping[str, OptionValue]
    timeout_s: float
    position: ChunkPosition | None = None
    request_id: str = ""
    """Id in the server's log and traces; empty for none."""
    outputs: tuple[str, ...] = ("RESULT",)
    """Names of the tensors to return."""

    @property
    def num_rows(self) -> int:
        return len(next(iter(self.inputs.values())))

    @property
    def headers(self) -> dict[str, str]:
        """The headers of this request alone."""
        return {} if self.position is None else {STREAM_HEADER: self.position.stream_id}

    @property
    def sequence(self) -> dict[str, bool | str]:
        """The parameters of Triton's sequence batcher; none for a recording."""
        if (position := self.position) is None:
            return {}
        return dict(
            sequence_id=position.stream_id,
            sequence_start=position.starts,
            sequence_end=position.ends,
        )


class TritonTransport(ABC):
    """Base of both transports to a Triton."""

    @abstractmethod
    async def result(self, request: Request) -> NDArray[Any] | None:
        """Send a request, and return the tensor RESULT of the answer."""

    async def infer(self, request: Request) -> list[Transcript]:
        """Send a request and return a transcript of each audio."""
        return await transcripts(await self.result(request), request.num_rows)

    async def ask(self, request: Request) -> bytes:
        """Send a request of another kind, and return the text of its answer."""
        result = await self.result(request)
        return bytes(result.item()) if result is not None else b""

    async def health(self, model: str, timeout_s: float) -> Health:
        inputs = {"SAMPLE_RATE": np.array([[16_000]], np.int32)}
        said = await self.ask(Request(model, inputs, {HEALTH: True}, timeout_s))
        try:
            return Health.from_json(said)
        except ValueError:
            raise ServerError("the server does not say which components it has") from None


def build(
    audios: Sequence[Audio],
    sample_rate: int,
    timeout_s: float | None,
    model: str,
    request_id: str,
    options: RecognitionOptions | Mapping[str, OptionArgument],
    *,
    default_timeout_s: float,
) -> Request:
    """Check audio and options and return the request of one row per audio.

    Only the given options are sent, so that the server's own defaults apply. `timeout_s` is also
    sent, as `deadline_ms`: a server does not notice when an HTTP client gives up, and would finish
    the work. Without it the client waits `default_timeout_s`, and there is no deadline.
    """
    parameters = {**time_limits(timeout_s), **checked(options).sent}
    return Request(
        model=model,
        inputs=tensors(audios, sample_rate),
        parameters=parameters,
        timeout_s=default_timeout_s if timeout_s is None else timeout_s,
        request_id=request_id,
    )


def checked(
    options: RecognitionOptions | Mapping[str, OptionArgument], *, live: bool = False
) -> RecognitionOptions:
    """Return options after their one check by a client, which those of `parse` have passed."""
    if isinstance(options, RecognitionOptions):
        return options
    return RecognitionOptions.parse(values_of(options), live=live)


def values_of(options: Mapping[str, OptionArgument]) -> dict[str, Any]:
    """Return options with a text for `known_speakers`.

    `known_speakers` may be a dict from names to an embedding, bytes or a path. It may also be the
    option's list of objects, with an embedding as an array, and an audio as bytes or a Path.
    """
    known: Any = options.get("known_speakers", "")
    if isinstance(known, str):
        return dict(options)
    if isinstance(known, Mapping):
        known = [
            {"name": name, "audio": _encoded(it)}
            if isinstance(it, str | bytes | os.PathLike)
            else {"name": name, "embedding": it}
            for name, it in known.items()
        ]
    entries = [
        {key: _encoded(it) if isinstance(it, os.PathLike) else it for key, it in item.items()}
        for item in known
    ]
    return {**options, "known_speakers": option_of(entries)}


def time_limits(timeout_s: float | None) -> dict[str, OptionValue]:
    """Return the options that end a server's work in time; the time is above 0."""
    if timeout_s is None:
        return {}
    if not timeout_s > 0:
        raise OptionError(f"timeout_s is a number of seconds above 0; sent: {timeout_s!r}")
    return {"deadline_ms": min(max(1, round(timeout_s * 1000)), 86_400_000)}


def tensors(audios: Sequence[Audio], sample_rate: int) -> dict[str, NDArray[Any]]:
    """Return the input tensors of a batch of B audios, all waveforms or all encoded files.

    Waveforms give WAV FP32 [B, longest], padded with zeros, and WAV_LENS and SAMPLE_RATE INT32
    [B, 1]. If all are int16, they give PCM16 INT16 in place of WAV. Files give AUDIO BYTES [B, 1].
    """
    are_waveforms = {isinstance(audio, np.ndarray) for audio in audios}
    if len(are_waveforms) != 1:
        raise AudioError(
            "a batch holds waveforms or files, not both" if are_waveforms else "no audio"
        )
    if are_waveforms == {False}:
        files = np.empty((len(audios), 1), dtype=np.object_)
        files[:, 0] = [_encoded(audio) for audio in audios]
        return {"AUDIO": files}
    if not isinstance(sample_rate, int | np.integer) or not 0 < sample_rate < 2**31:
        raise AudioError(f"sample_rate is a whole number of Hz above 0; sent: {sample_rate!r}")
    rows = _waveforms(audios)
    lens = np.array([[len(row)] for row in rows], dtype=np.int32)
    wav = rows[0][np.newaxis]  # of one row without a copy: an hour is 230 MB
    if len(rows) > 1:
        wav = np.zeros((len(rows), lens.max()), dtype=rows[0].dtype)
        for padded, row in zip(wav, rows, strict=True):
            padded[: len(row)] = row
    rates = np.full_like(lens, sample_rate)
    return {_name_of(wav): wav, "WAV_LENS": lens, "SAMPLE_RATE": rates}


def live_samples(chunk: NDArray[Any]) -> NDArray[Any]:
    """Return the samples of a live chunk as they are sent: int16 or float32 [N]; N may be 0."""
    (samples,) = _waveforms([chunk if len(chunk) else np.zeros(1, np.int16)])
    return samples[: len(chunk)]


def chunk_tensors(samples: NDArray[Any], sample_rate: int) -> dict[str, NDArray[Any]]:
    """Return the input tensors of a live chunk, given as `live_samples` returns it."""
    # Triton refuses an empty tensor. WAV_LENS says that there are no samples.
    sent = samples if len(samples) else np.zeros(1, np.int16)
    return {
        _name_of(sent): sent[np.newaxis],
        "WAV_LENS": np.array([[len(samples)]], np.int32),
        "SAMPLE_RATE": np.array([[sample_rate]], np.int32),
    }


async def transcripts(result: NDArray[Any] | None, rows: int) -> list[Transcript]:
    """Return the transcripts of RESULT, BYTES [rows, 1]; of a live chunk also [1].

    Raise a ServerError for another shape: then the model is not a speech model.
    """
    shapes = [(rows, 1), (1,)] if rows == 1 else [(rows, 1)]
    if result is None or result.shape not in shapes:
        shape = "none" if result is None else f"shape {list(result.shape)}"
        raise ServerError(f"expected the output RESULT of shape [{rows}, 1], found {shape}")
    return [await read_transcript(text) for text in result.flat]


async def read_transcript(text: bytes) -> Transcript:
    """Return the transcript of a JSON text; a large one is read in a thread."""
    if len(text) > LARGE_RESULT_BYTES:
        return await asyncio.to_thread(Transcript.from_json, text)
    return Transcript.from_json(text)


def error(code: str | None, message: str, url: str) -> ConchError:
    """Return the exception for an error answer.

    `code` is an HTTP status ("400"), a gRPC status ("StatusCode.INVALID_ARGUMENT"), or None in a
    streamed answer. Conch's own models need none.
    """
    if said := from_wire(message):
        is_lost = isinstance(said, ProcessLostError)
        return ServerLostError(f"{url}: {said}") if is_lost else said
    if full := out_of_shared_memory(message):
        return full
    name = (code or "").removeprefix("StatusCode.")
    if foreign.PROCESS_DIED.search(message):
        return ServerLostError(
            f"{url} is about to replace the model, whose process died: {message}",
            had_request=False,  # it came too late to be the cause
        )
    if foreign.UNLOADED_MODEL in message:
        return UnavailableError(f"{url} is replacing the model, or about to stop")
    if "Method not found" in message:
        return ServerError(
            f"{url} speaks gRPC, and is no Triton: {message} The URL of a gateway begins with "
            "http:// or https://, and ports of Riva's clients are for those"
        )
    if foreign.UNKNOWN_MODEL in message or name in {"404", "NOT_FOUND", "UNIMPLEMENTED"}:
        return ServerError(f"{url} does not serve this model: {message}")
    if any(words in message for words in foreign.STOPPING):
        return UnavailableError(f"{url} is about to stop, and takes no more audio")
    if name in {"503", "UNAVAILABLE"}:
        error_type = UnavailableError if foreign.GRPC_OF_PROXY in message else OverloadedError
        return error_type(message)
    if name in {"499", "CANCELLED"}:
        return RequestCancelledError(message)
    if name in {"400", "413", "INVALID_ARGUMENT"}:
        return InvalidRequestError(message)
    if name == "405":
        return ServerError(
            f"{url} is no address of a Triton or of a gateway: {message} (status 405); a port of "
            "metrics answers so"
        )
    if name in {"502", "504"}:
        return UnreachableError(f"{url}: a proxy has no answer of the server: {message}")
    if name in {"500", "INTERNAL"}:
        return ComponentError(message)
    return ServerError(f"unexpected answer from {url}: {message} (status {code})")


def text_of(value: OptionValue) -> str:
    """Return the value of an option as text, for a form or the query of an address."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def no_answer(timeout_s: float, url: str) -> DeadlineError:
    """Return the error of a request that the client stopped waiting for."""
    return DeadlineError(f"deadline: no answer from {url} within {timeout_s:g} s")


def unreachable(url: str, reason: object, *, had_request: bool = True) -> ServerLostError:
    """Return the error of a connection that could not be made or broke; see `ServerLostError`."""
    if foreign.CONNECTION_BROKEN.search(str(reason)):
        return ServerLostError(
            f"lost the connection to {url}: {reason}; "
            "send it again in some seconds: `conch serve` replaces what has died",
            had_request=had_request,
        )
    hint = "`conch serve` starts one"
    if foreign.UNTRUSTED in str(reason):
        hint = "--ca-cert, ca_cert or CONCH_CA_CERT names the certificate of its authority"
    return UnreachableError(f"cannot reach a server at {url}: {reason}; {hint}")


def _encoded(audio: Audio) -> bytes | StoredFile:
    if isinstance(audio, bytes | StoredFile):
        if not audio:
            raise AudioError("the audio is empty: 0 bytes")
        return audio
    path = Path(os.fspath(audio))  # type: ignore[arg-type]
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise AudioError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise AudioError(f"{path}: a folder, not an audio file") from None
    except OSError as failure:
        raise AudioError(f"{path}: cannot be read: {failure.strerror or failure}") from None
    if not data:
        raise AudioError(f"{path}: the file is empty")
    return data


def _waveforms(audios: Sequence[Any]) -> list[NDArray[Any]]:
    """Return the samples of waveforms: int16 if all are, else float32 in [-1, 1]."""
    for audio in audios:
        if audio.ndim != 1:
            raise AudioError(f"a waveform is mono samples of shape [N]; sent: {list(audio.shape)}")
        if not audio.size:
            raise AudioError("the waveform is empty: 0 samples")
        if audio.dtype.kind != "f" and audio.dtype not in (np.int16, np.int32):
            raise AudioError(f"a waveform is float, int16 or int32; sent: {audio.dtype}")
    if all(audio.dtype == np.int16 for audio in audios):
        return list(audios)
    return [
        np.asarray(audio, np.float32)
        if audio.dtype.kind == "f"
        # Full scale of the integer type is 1.0.
        else np.divide(audio, np.float32(-float(np.iinfo(audio.dtype).min)), dtype=np.float32)
        for audio in audios
    ]


def _name_of(waveforms: NDArray[Any]) -> str:
    return "PCM16" if waveforms.dtype == np.int16 else "WAV"
