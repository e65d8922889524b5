"""Bytes on a connection: requests that no HTTP client would write, cut off or held open."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from hypothesis import strategies as st

from lab.chaos.answers import LOST, Answer
from lab.chaos.doors.target import Target, answered
from lab.chaos.drawn import mostly

LINES = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /v2/models/speech/infer HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /v2/models/speech/infer HTTP/1.1\r\nContent-Length: 9999999999999999999\r\n\r\n{",
    b"POST /v2/models/speech/infer HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n{",
    b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /v1/conch/listen HTTP/1.1\r\nHost: x\r\n"
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5_000 + b"\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
)
SILENCE_S = 0.3
"""Seconds after which a client that got no answer goes away."""


@dataclass(frozen=True, slots=True)
class RawCall:
    """Bytes to Triton's HTTP, to its gRPC or to the gateway, and then nothing."""

    port: str
    """`http`, `grpc` or `gateway`."""
    data: bytes

    async def send(self, target: Target) -> list[Answer]:
        """Send the bytes; an answer, a closed connection and silence hold alike."""
        return [await answered(self._sent(target))]

    async def _sent(self, target: Target) -> Answer:
        try:
            reader, writer = await asyncio.open_connection(*target.addresses.of(self.port))
        except ConnectionRefusedError:
            return Answer(LOST, f"nothing listens on {self.port}")
        try:
            # The server may close the connection in the middle.
            with suppress(ConnectionError, TimeoutError):
                writer.write(self.data)
                await writer.drain()
                async with asyncio.timeout(SILENCE_S):
                    head = await reader.read(200)
                    if head.startswith(b"HTTP/1.1 5"):
                        return Answer(head[9:12].decode(), head.decode(errors="replace"))
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        return Answer("200")


@st.composite
def raw_calls(draw: st.DrawFn) -> RawCall:
    line = draw(mostly(st.sampled_from(LINES), st.binary(max_size=200)))
    cut = draw(st.one_of(st.just(len(line)), st.integers(0, len(line))))
    return RawCall(draw(st.sampled_from(["http", "grpc", "gateway"])), line[:cut])
