"""Live streams of a gateway: a WebSocket for each, with one answer for each frame of audio."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from conch.client import tensors
from conch.client.aio import timeout
from conch.client.endpoint import Endpoint
from conch.client.http_session import connector_to, session_to
from conch.session.answers import joined_answers
from conch.wire.entry_points import ChunkPosition
from conch.wire.errors import (
    ConchError,
    OptionError,
    ServerLostError,
    SessionError,
    from_answer,
    from_error,
)
from conch.wire.limits import MAX_QUERY
from conch.wire.result import Transcript
from conch.wire.synthesis import Spoken

LISTEN = "/v1/conch/listen"
FRAME_SAMPLES = 80_000
"""Largest frame: a gateway limits its bytes, and the seconds that wait to be recognised."""
MAX_MESSAGE_BYTES = 2**26
"""Largest answer: hours of text with the times of its words."""
CLOSE_S = 2.0
"""Seconds for the gateway to answer a close frame."""
BROKEN_OFF = 1006
"""Code in place of that of a close frame, if none came (RFC 6455, section 7.4.1)."""


class GatewayEvent(msgspec.Struct):
    """A message about a stream, or a server-sent event of an answer."""

    type: str = ""
    transcript: msgspec.Raw = msgspec.Raw(b"{}")
    audio: bytes = b""
    """Sent as base64 in JSON."""
    spoken: Spoken | None = None
    error: Mapping[str, Any] | None = None


EVENTS = msgspec.json.Decoder(GatewayEvent)


class GatewayStreams:
    """The live streams of one client that are open, by their ids."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        # Streams last for hours: they must not use up the connections of the requests.
        self._connector = connector_to(endpoint, limit=0)
        self._open: dict[str, _GatewayStream] = {}

    async def answer(self, request: tensors.Request, position: ChunkPosition) -> Transcript:
        """Send a chunk and return its transcript, or raise its ConchError."""
        stream = self._open.get(position.stream_id)
        if position.starts and (stream is None or stream.has_ended):
            stream = self._open[position.stream_id] = _GatewayStream(
                self._endpoint, self._connector
            )
        if stream is None:
            raise SessionError("this stream is not open: it never started, or has ended")
        try:
            async with stream.turn:
                if stream.is_over and position.starts:
                    await stream.start(request)
                return await stream.answer(_samples_of(request), ends=position.ends)
        finally:
            if position.ends or stream.is_over:
                self._open.pop(position.stream_id, None)
                await stream.close()

    async def close(self) -> None:
        """Close all streams, whatever they wait for."""
        streams, self._open = list(self._open.values()), {}
        await asyncio.gather(*(stream.close() for stream in streams))
        await self._connector.close()


class _GatewayStream:
    def __init__(self, endpoint: Endpoint, connector: Any) -> None:
        self._endpoint, self._connector = endpoint, connector
        self.turn = asyncio.Lock()
        """Held from a frame to its answer: chunks that are sent at once keep their order."""
        self.is_over = True
        """Whether nothing can be sent or read: before `start`, and after the end."""
        self._session: Any = None
        self._socket: Any = None
        self._reading: asyncio.Task[None] | None = None
        self._messages: asyncio.Queue[GatewayEvent | None] = asyncio.Queue()
        """Messages of the gateway; None is the end."""
        self._refusal = b""
        """Body of the answer that refuses the WebSocket."""
        self._has_last = False
        """Whether a gateway that stops has sent its last text before the stream was ended."""

    @property
    def has_ended(self) -> bool:
        """Whether no more audio can be sent; messages that say why may be left."""
        return self.is_over or (self._reading is not None and self._reading.done())

    async def start(self, request: tensors.Request) -> None:
        """Open the WebSocket, or raise the error by which the gateway refuses it."""
        import aiohttp

        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(self._keep_refusal)
        trace.on_request_redirect.append(self._refuse_redirect)
        self._session = session_to(
            self._endpoint, self._connector, connector_owner=False, trace_configs=[trace]
        )
        rate = int(request.inputs["SAMPLE_RATE"][0, 0])
        options = {name: value for name, value in request.parameters.items() if name != "session"}
        query = {"answers": "all", "encoding": "float32", "sample_rate": rate, **options}
        for name, value in options.items():
            if (length := len(tensors.text_of(value))) > MAX_QUERY:
                raise OptionError(
                    f"option '{name}' of live audio takes at most {MAX_QUERY} characters at a "
                    f"gateway; sent: {length}; send embeddings in place of audio"
                )
        try:
            self._socket = await self._session.ws_connect(
                f"{self._endpoint}{LISTEN}",
                params={name: tensors.text_of(value) for name, value in query.items()},
                headers={"x-request-id": request.request_id} if request.request_id else {},
                max_msg_size=MAX_MESSAGE_BYTES,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S),
            )
        except aiohttp.WSServerHandshakeError as failure:
            raise from_answer(failure.status, self._refusal, str(self._endpoint)) from None
        self.is_over = False
        self._reading = asyncio.create_task(self._read())

    async def _keep_refusal(self, _session: Any, _context: Any, end: Any) -> None:
        """Read the body of an answer that refuses the WebSocket; aiohttp drops it."""
        if end.response.status != 101:
            self._refusal = await end.response.read()

    async def _refuse_redirect(self, _session: Any, _context: Any, answer: Any) -> None:
        """Keep the key from other servers; aiohttp would follow."""
        raise from_answer(answer.response.status, b"", str(self._endpoint))

    async def answer(self, samples: NDArray[np.float32], *, ends: bool) -> Transcript:
        """Send samples [N] and return the transcript so far, or the last one.

        A gateway that stops sends its last one early; what comes after it is an error.
        """
        if self.is_over:
            raise SessionError("this stream has ended; open another")
        try:
            answers: list[Transcript] = []
            for frame in _frames(samples, ends=ends):
                if not self._has_last:
                    # What the gateway sent before it closed the connection is read all the same.
                    with contextlib.suppress(ConnectionError):
                        await self._socket.send_bytes(frame.tobytes())
                    answers += await self._answers(until_end=False)
            # It does not say how much of these samples it has heard: only `send` may return it.
            if self._has_last and (ends or not answers):
                self.is_over = True
                raise ServerLostError(f"{self._endpoint} has ended the stream: it is about to stop")
            if ends:
                self.is_over = True
                with contextlib.suppress(ConnectionError):
                    await self._socket.send_json({"type": "close"})
                answers += await self._answers(until_end=True)
            if not answers:
                raise ServerLostError(
                    f"{self._endpoint} has ended the stream without an answer", had_request=False
                )
        except ConchError:
            raise
        except BaseException:
            # An answer may be under way, which must not be taken for the next one.
            self.is_over = True
            raise
        return joined_answers(answers)

    async def _answers(self, *, until_end: bool) -> list[Transcript]:
        """Return the answers up to that of a frame, or to the end.

        The last one of a Triton stream that the gateway replaces comes before that of the frame.
        """
        answers: list[Transcript] = []
        while (message := await self._message()).type != "end":
            if message.type == "transcript":
                answers.append(Transcript.from_json(bytes(message.transcript)))
                if not until_end and not answers[-1].is_final:
                    return answers
        self._has_last = True
        return answers

    async def _message(self) -> GatewayEvent:
        """Return the next message; raise it if it is an error, or if there is none."""
        message = await self._messages.get()
        if message is not None:
            if message.error is not None:
                raise from_error(message.error, str(self._endpoint))
            return message
        self.is_over = True
        if self._socket.close_code in (None, BROKEN_OFF):
            # A gateway reports a server that is lost: this is the network, or the gateway itself.
            raise ServerLostError(
                f"lost the connection to {self._endpoint}: it has broken off", had_request=False
            )
        raise SessionError(f"this stream has ended: {self._endpoint} has closed the connection")

    async def _read(self) -> None:
        """Read all messages as they come, and so answer the gateway's pings."""
        import aiohttp

        try:
            async for message in self._socket:
                if message.type == aiohttp.WSMsgType.TEXT:
                    self._messages.put_nowait(EVENTS.decode(message.data))
        finally:
            self._messages.put_nowait(None)

    async def close(self) -> None:
        """Close the WebSocket, and with it the stream of the server."""
        self.is_over = True
        if self._socket is not None:
            connection = self._socket.get_extra_info("socket")
            await self._socket.close()
            await _closed(connection)
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._session is not None:
            await self._session.close()


async def _closed(connection: Any) -> None:
    """Wait until a socket of asyncio is closed; with TLS this takes some turns of the event loop.

    aiohttp does not wait for it, and the event loop may end with the client.
    """
    with contextlib.suppress(asyncio.TimeoutError):
        async with timeout(CLOSE_S):
            while connection is not None and connection.fileno() >= 0:
                await asyncio.sleep(CLOSE_S / 400)


def _frames(samples: NDArray[np.float32], *, ends: bool) -> Sequence[NDArray[np.float32]]:
    """Return the frames of a chunk; one without samples is a frame too, except at the end."""
    starts = range(0, len(samples), FRAME_SAMPLES) if ends or len(samples) else [0]
    return [samples[start : start + FRAME_SAMPLES] for start in starts]


def _samples_of(request: tensors.Request) -> NDArray[np.float32]:
    """Return the samples [N] of a live chunk, float32 with the lowest byte first."""
    length = int(request.inputs["WAV_LENS"][0, 0])
    if (integers := request.inputs.get("PCM16")) is not None:
        return integers[0, :length].astype("<f4") / np.float32(32_768)
    return request.inputs["WAV"][0, :length].astype("<f4", copy=False)
