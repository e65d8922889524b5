"""The transport of a `Request` to a gateway: HTTP and WebSockets.

Each audio of a batch is a request of its own, and a waveform goes as a WAV file. A live stream has
a WebSocket: see `conch.client.gateway_live`.
"""

import asyncio
import contextlib
import http.client
import io
import json
import socket
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from conch.client import tensors
from conch.client.aio import all_of
from conch.client.endpoint import CONNECT_TIMEOUT_S, Endpoint
from conch.client.gateway_live import EVENTS, GatewayEvent, GatewayStreams
from conch.client.http_session import connector_to, explained, session_to
from conch.client.speech import Speech
from conch.client.voices import http_of
from conch.families.family import Voice
from conch.wire.entry_points import ENTRY_POINTS, SYNTHESIS, Health
from conch.wire.errors import DeadlineError, ServerError, UnreachableError, from_answer, from_error
from conch.wire.parts import about_whole
from conch.wire.result import Transcript

SERVICE = "conch-gateway"
"""How a gateway names itself at /health/live."""
FILES, SPEECH = "/v1/audio/transcriptions", "/v1/audio/speech"
BATCH_AT_ONCE = 8
MAX_PROBE_BYTES = 1 << 20


def is_gateway(endpoint: Endpoint, timeout_s: float = CONNECT_TIMEOUT_S) -> bool:
    """Ask what answers over HTTP, for CONNECT_TIMEOUT_S at most; return whether it is a gateway.

    Raise a ServerError if nothing answers, or only a proxy; a DeadlineError if the answer is late.
    """
    status, body = _got(endpoint, "/health/live", min(timeout_s, CONNECT_TIMEOUT_S))
    if status in (502, 503, 504):
        raise UnreachableError(f"{endpoint} does not answer: status {status} at /health/live")
    return _is_of_gateway(body)


def voices_of(endpoint: Endpoint) -> list[Voice]:
    """Return the voices of a gateway, the default first; raise a ConchError without them."""
    status, body = _got(endpoint, "/v1/audio/voices", CONNECT_TIMEOUT_S)
    if status != 200:
        raise from_answer(status, body, str(endpoint))
    try:
        return msgspec.convert(msgspec.json.decode(body)["voices"], list[Voice])
    except (ValueError, KeyError, TypeError) as error:
        raise ServerError(f"the answer is no list of voices: {error!s:.200}") from None


def _got(endpoint: Endpoint, route: str, patience_s: float) -> tuple[int, bytes]:
    """Return the status and the body of the answer to a GET."""
    address = endpoint.address
    host, slash, path = address.target.partition("/")
    connect: Callable[..., http.client.HTTPConnection] = http.client.HTTPConnection
    if address.is_secure:
        connect = partial(http.client.HTTPSConnection, context=endpoint.trust())
    with contextlib.closing(connect(host, timeout=patience_s)) as connection:
        try:
            connection.connect()
        except OSError as failure:
            raise tensors.unreachable(str(endpoint), failure) from None
        try:
            connection.request("GET", f"{slash}{path}{route}", headers=dict(endpoint.headers))
            answer = connection.getresponse()
            return answer.status, answer.read(MAX_PROBE_BYTES)
        except ConnectionResetError as failure:
            if not address.is_secure and _speaks_tls(connection, patience_s):
                raise UnreachableError(
                    f"{endpoint} speaks TLS: its URL begins with https://"
                ) from None
            raise tensors.unreachable(str(endpoint), failure) from None
        except http.client.BadStatusLine as failure:
            if str(failure).isprintable():
                raise tensors.unreachable(str(endpoint), failure) from None
            scheme = "grpcs" if address.is_secure else "grpc"
            raise ServerError(
                f"{endpoint} does not speak HTTP. If it is Triton's port for gRPC, its URL is "
                f"{scheme}://{address.target}; ports of Riva's and Wyoming's clients are for those"
            ) from None
        except TimeoutError:
            raise tensors.no_answer(patience_s, str(endpoint)) from None
        except (OSError, http.client.HTTPException) as failure:
            raise tensors.unreachable(str(endpoint), failure) from None


def _speaks_tls(connection: http.client.HTTPConnection, patience_s: float) -> bool:
    """Return whether a server that has cut off a connection takes one with TLS."""
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    try:
        peer = connection.host, connection.port
        with socket.create_connection(peer, patience_s) as plain, trust.wrap_socket(plain):
            return True
    except OSError:
        return False


def _is_of_gateway(body: bytes) -> bool:
    """Return whether a body is that of a gateway: its name, or an error as it writes them.

    A proxy may put its own name into the header Server, but leaves the body as it is.
    """
    with contextlib.suppress(ValueError, RecursionError):
        answer = json.loads(body)
        if isinstance(answer, dict):
            error = answer.get("error")
            is_error = isinstance(error, dict) and {"message", "type", "param", "code"} <= {*error}
            return is_error or answer.get("service") == SERVICE
    return False


class GatewayTransport:
    """HTTP and WebSockets: a pool of connections, and one for each live stream."""

    def __init__(self, endpoint: Endpoint, connections: int) -> None:
        self._endpoint = endpoint
        self._session = session_to(endpoint, connector_to(endpoint, connections))
        self._streams = GatewayStreams(endpoint)

    async def infer(self, request: tensors.Request) -> list[Transcript]:
        _check_entry(self._endpoint, request.model, "speech")
        async with explained(self._endpoint, request.timeout_s):
            if request.position is not None:
                return [await self._streams.answer(request, request.position)]
            slots = asyncio.Semaphore(BATCH_AT_ONCE)

            async def answered(row: int) -> Transcript:
                async with slots, await self._posted(request, row) as answer:
                    await self._check(answer)
                    return await tensors.read_transcript(await answer.read())

            return await all_of(answered(row) for row in range(request.num_rows))

    async def stream(self, request: tensors.Request) -> AsyncGenerator[Transcript, None]:
        _check_entry(self._endpoint, request.model, "speech_stream")
        post = partial(self._posted, request, 0, stream="true")
        async with contextlib.aclosing(self._events(request, post)) as events:
            async for event in events:
                transcript = await tensors.read_transcript(bytes(event.transcript))
                if event.type == "transcript.done":
                    # The last part has the figures of the whole audio, and no text.
                    yield about_whole(transcript, [], 1)
                    return
                yield transcript

    async def _events(
        self, request: tensors.Request, post: Callable[[], Awaitable[Any]]
    ) -> AsyncGenerator[GatewayEvent, None]:
        """Post a request and yield the events of its answer, within the time of the request."""
        give_up_at = time.monotonic() + request.timeout_s
        in_time = partial(explained, self._endpoint, request.timeout_s, give_up_at)
        async with in_time():
            answer = await post()
        try:
            async with in_time():
                await self._check(answer)
            lines = _lines(answer.content.iter_any())
            while True:
                async with in_time():
                    line = await anext(lines, None)
                if line is None:
                    raise tensors.unreachable(str(self._endpoint), "the answer has broken off")
                # https://html.spec.whatwg.org/multipage/server-sent-events.html; the gateway writes
                # each event on one line.
                if not line.startswith(b"data:"):
                    continue
                event = EVENTS.decode(line[5:])
                if event.error is not None:
                    raise from_error(event.error, str(self._endpoint))
                yield event
        finally:
            # Before its end, this cancels the work of the server.
            answer.close()

    async def speak(self, request: tensors.Request) -> AsyncGenerator[Speech, None]:
        _check_entry(self._endpoint, request.model, *SYNTHESIS)
        post = partial(self._post, SPEECH, request, json=speech_body(request))
        async with contextlib.aclosing(self._events(request, post)) as events:
            async for event in events:
                yield speech_of_event(event, str(request.parameters.get("format", "pcm_f32")))
                if event.type == "speech.audio.done":
                    return

    async def ask(self, request: tensors.Request) -> bytes:
        method, path, fields, files = http_of(request)
        form = _form(fields)
        for field, name, content in files:
            form.add_field(field, content, filename=name)
        data = form if files else None
        async with (
            explained(self._endpoint, request.timeout_s),
            self._session.request(
                method, f"{self._endpoint}{path}", data=data, allow_redirects=False
            ) as answer,
        ):
            await self._check(answer)
            return bytes(await answer.read())

    async def health(self, model: str, timeout_s: float) -> Health:
        raise ServerError(f"{self._endpoint} is a gateway, which has no list of components")

    async def is_ready(self, model: str, timeout_s: float) -> bool:
        _check_entry(self._endpoint, model, *ENTRY_POINTS, *SYNTHESIS)
        try:
            async with explained(self._endpoint, timeout_s):
                url = f"{self._endpoint}/health/ready"
                async with self._session.get(url, allow_redirects=False) as answer:
                    if answer.status == 503:
                        return False
                    await self._check(answer)
                    return True
        except DeadlineError as failure:
            raise tensors.unreachable(str(self._endpoint), failure) from None

    async def close(self) -> None:
        await self._streams.close()
        await self._session.close()

    async def _posted(self, request: tensors.Request, row: int, **fields: str) -> Any:
        """Send one audio of a request, and return the answer."""
        form = _form({**request.parameters, **fields, "response_format": "conch"})
        # In a thread: an hour of samples takes a while to write.
        file = await asyncio.to_thread(file_of, request, row)
        form.add_field("file", io.BytesIO(file), filename="audio")
        return await self._post(FILES, request, data=form)

    async def _post(self, path: str, request: tensors.Request, **body: Any) -> Any:
        headers = {"x-request-id": request.request_id} if request.request_id else {}
        return await self._session.post(
            f"{self._endpoint}{path}",
            headers=headers,
            allow_redirects=False,  # only this server gets the key
            **body,
        )

    async def _check(self, answer: Any) -> None:
        """Raise the error of an answer that has another status than 200."""
        if answer.status != 200:
            raise from_answer(answer.status, await answer.read(), str(self._endpoint))


def _form(fields: Mapping[str, tensors.OptionValue]) -> Any:
    import aiohttp

    form = aiohttp.FormData(default_to_multipart=True)
    for name, value in fields.items():
        form.add_field(name, tensors.text_of(value))
    return form


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the lines of an answer, of any length; one that has no end is left out."""
    begun: list[bytes] = []
    async for piece in pieces:
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield b"".join((*begun, end))
            begun.clear()
        begun.append(rest)


def file_of(request: tensors.Request, row: int) -> bytes:
    """Return one audio of a request as a file; a waveform as WAV with all that its samples hold."""
    if (files := request.inputs.get("AUDIO")) is not None:
        return bytes(files[row, 0])
    import soundfile

    name = "PCM16" if "PCM16" in request.inputs else "WAV"
    samples = request.inputs[name][row, : int(request.inputs["WAV_LENS"][row, 0])]
    if name == "WAV" and (exact := as_pcm16(samples)) is not None:
        samples = exact
    file = io.BytesIO()
    subtype = "FLOAT" if samples.dtype == np.float32 else "PCM_16"
    rate = int(request.inputs["SAMPLE_RATE"][row, 0])
    soundfile.write(file, samples, rate, format="WAV", subtype=subtype)
    return file.getvalue()


def speech_body(request: tensors.Request) -> dict[str, Any]:
    """Return the JSON of a request for speech; its answer comes in events."""
    text: bytes = request.inputs["TEXT"].item()
    options = dict(request.parameters)
    own = {"response_format": options.pop("format", "pcm_f32"), "stream_format": "sse"}
    return {"model": "conch", "input": text.decode(), **own, **options}


def speech_of_event(event: GatewayEvent, format: str) -> Speech:
    if event.spoken is None:
        raise ServerError("the answer does not say what was spoken, as a gateway of Conch does")
    if format == "pcm_f32":
        return Speech(np.frombuffer(event.audio, "<f4").astype(np.float32), b"", event.spoken)
    return Speech(np.zeros(0, np.float32), event.audio, event.spoken)


def as_pcm16(samples: NDArray[np.float32]) -> NDArray[np.int16] | None:
    """Return samples in 16 bits, which take half the bytes; None if that would change any."""
    scaled = samples * np.float32(32_768)
    # NaN is not equal to itself, and so stays what it is.
    if not np.array_equal(scaled, np.rint(scaled)) or np.abs(scaled + 0.5).max() > 32_767.5:
        return None
    return scaled.astype(np.int16)


def _check_entry(endpoint: Endpoint, model: str, *entries: str) -> None:
    """Raise a `ServerError` if a request is not for one of the entries that a gateway serves."""
    if model not in entries:
        raise ServerError(
            f"{endpoint} is a gateway, which has one entry and not the model {model!r}: send the "
            "request to a Triton"
        )
