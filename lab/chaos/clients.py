"""Clients that go away, that are too many, and that have no time."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

import grpc  # type: ignore[import-untyped]

from conch.client import AsyncClient
from conch.component import FloatArray
from conch.wire.errors import ConchError, DeadlineError, OverloadedError
from lab.chaos.answers import Answer
from lab.chaos.doors import Target
from lab.chaos.doors.sockets import SocketScript
from lab.chaos.doors.triton_grpc import SERVICE, message
from lab.chaos.fuzz import Sent
from lab.chaos.honest import BY_GRPC, Honest
from lab.chaos.speech import speech, wav_file

CROWD = 300
VANISHING = 20
HALF_SENT_BYTES = 1_000_000
DEADLINES_MS = (1, 2, 5, 20, 100, 1_000, 86_400_000)
PATIENCE_S = 300.0
"""Seconds for the answer to the last client of a crowd."""


async def vanish(target: Target, seed: int) -> Sent:
    """Cut requests, calls, streams and sockets off in the middle; hold half-sent bodies open."""
    sent, chosen = Sent("vanishing clients"), random.Random(seed)
    held = [
        await _half_sent(target, port) for port in ("http", "gateway") for _ in range(VANISHING)
    ]
    ways: tuple[Callable[[Target, random.Random], Awaitable[Answer]], ...] = (
        _cut_request,
        _cancelled_call,
        _left_answer,
        _abandoned_stream,
        _cut_socket,
    )
    order = [way for way in ways for _ in range(VANISHING)]
    chosen.shuffle(order)
    for number, way in enumerate(order):
        answer = await way(target, chosen)
        sent.count_answer(number, answer, way.__name__.strip("_"))
    for writer in held:
        sent.outcomes["answered"] += 1
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    return sent


async def crowd(honest: Honest) -> Sent:
    """Send as many recordings at once as `CROWD`; each comes word for word, or is refused."""
    sent = Sent(f"{CROWD} clients at once")
    replies = await asyncio.gather(
        *(honest.ask(BY_GRPC, patience_s=PATIENCE_S) for _ in range(CROWD))
    )
    for number, item in enumerate(replies):
        status = {"right": "OK", "busy": "503"}.get(item.outcome, "wrong")
        text = "OVERLOADED: too many" if item.outcome == "busy" else item.outcome
        sent.count_answer(number, Answer(status, text), item.request)
    return sent


async def hurry(target: Target) -> Sent:
    """Send recordings and live chunks with deadlines from 1 ms to a day."""
    sent = Sent("deadlines")
    async with AsyncClient(f"grpc://{target.addresses.grpc}") as client:
        for number, milliseconds in enumerate(DEADLINES_MS * 5):
            sent.count_answer(number, await _timed(client, milliseconds), f"{milliseconds} ms")
    return sent


async def _timed(client: AsyncClient, milliseconds: int) -> Answer:
    if milliseconds % 5:
        request = client.transcribe(speech(), deadline_ms=milliseconds, timeout_s=PATIENCE_S)
        return await _told(request)
    return await _told(_live(client, speech(), deadline_ms=milliseconds))


async def _live(client: AsyncClient, chunk: FloatArray, **options: Any) -> None:
    async with client.live(timeout_s=PATIENCE_S, resume_s=0, **options) as stream:
        await stream.finish(chunk)


async def _told(coming: Awaitable[object]) -> Answer:
    """Return what becomes of a request: an answer, a refusal for load or time, or a fault."""
    try:
        await coming
    except (DeadlineError, OverloadedError) as error:
        return Answer("503", f"{error.code}: {error}")
    except ConchError as error:
        return Answer("500", str(error))
    return Answer("200")


async def _half_sent(target: Target, port: str) -> asyncio.StreamWriter:
    if port == "http":
        path, content_type = "/v2/models/speech/infer", "application/json"
    else:
        path, content_type = "/v1/audio/transcriptions", "multipart/form-data; boundary=x"
    host, number = target.addresses.of(port)
    _, writer = await asyncio.open_connection(host, number)
    head = f"POST {path} HTTP/1.1\r\nHost: {host}:{number}\r\nContent-Type: {content_type}\r\n"
    writer.write(f"{head}Content-Length: {HALF_SENT_BYTES}\r\n\r\n".encode())
    part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    writer.write((b"" if port == "http" else part) + b"0" * (HALF_SENT_BYTES // 2))
    with suppress(ConnectionError):
        await writer.drain()
    return writer


async def _cut_request(target: Target, chosen: random.Random) -> Answer:
    writer = await _half_sent(target, chosen.choice(["http", "gateway"]))
    writer.transport.abort()
    return Answer("200")


async def _cancelled_call(target: Target, chosen: random.Random) -> Answer:
    data = speech().tobytes()
    request = message("speech", {"WAV": ("FP32", [1, len(speech())], data)}, {})
    call = target.channel.unary_unary(f"{SERVICE}/ModelInfer")(request.SerializeToString())
    await asyncio.sleep(chosen.uniform(0, 0.3))
    call.cancel()
    with suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
        await call
    return Answer("200")


async def _left_answer(target: Target, chosen: random.Random) -> Answer:
    async with AsyncClient(f"grpc://{target.addresses.grpc}") as client:
        coming = asyncio.ensure_future(_first_of(client))
        with suppress(TimeoutError, ConchError):
            await asyncio.wait_for(coming, chosen.uniform(0.01, 0.4))
    return Answer("200")


async def _first_of(client: AsyncClient) -> None:
    async with aclosing(client.stream(speech())) as segments:
        async for _ in segments:
            return


async def _abandoned_stream(target: Target, chosen: random.Random) -> Answer:
    async with AsyncClient(f"grpc://{target.addresses.grpc}") as client:
        stream = client.live(timeout_s=PATIENCE_S, resume_s=0)
        return await _told(stream.send(speech()[: chosen.randrange(1, 30_000)]))


async def _cut_socket(target: Target, chosen: random.Random) -> Answer:
    data = wav_file()[: chosen.randrange(44, 40_000)]
    (answer,) = await SocketScript("/v1/conch/listen", (data,), is_closed=False).send(target)
    return answer
