"""Visits by Riva's API: plain gRPC, as any of its clients sends it."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc  # type: ignore[import-untyped]

from conch.gateway.doors import Door
from conch.gateway.riva.protocol import RECOGNITION, SYNTHESIS, Message, Method, methods_of
from lab.chaos.answers import Answer
from lab.chaos.speech import RATE
from lab.chaos.visits.http_visits import as_text
from lab.chaos.visits.sent import Sent

NO_MESSAGE = b"\xff\xff\xff"
"""Bytes that are no message of protobuf: a value of a wrong type."""
_METHODS = {
    method.path: method for name in (RECOGNITION, SYNTHESIS) for method in methods_of(name).values()
}


def _file_messages(sent: Sent, method: Method) -> list[bytes]:
    if not all(isinstance(part, bytes) for part in sent.parts):
        return [NO_MESSAGE]
    request = method.request(audio=b"".join(sent.parts))
    _set(request.config.custom_configuration, sent)
    return [request.SerializeToString()]


def _stream_messages(sent: Sent, method: Method) -> list[bytes]:
    first = method.request()
    config = first.streaming_config.config
    config.encoding, config.sample_rate_hertz = 1, RATE
    _set(config.custom_configuration, sent)
    messages = [first.SerializeToString()]
    for part in sent.parts:
        whole = isinstance(part, bytes)
        messages.append(
            method.request(audio_content=part).SerializeToString() if whole else NO_MESSAGE
        )
    return messages


def _text_messages(sent: Sent, method: Method) -> list[bytes]:
    if not all(isinstance(part, str) for part in sent.parts):
        return [NO_MESSAGE]
    text = "".join(sent.parts).encode(errors="surrogatepass")
    request = method.request()
    _set(request.custom_configuration, sent)
    # As bytes, as some are no text.
    head = b"\x0a" + bytes([len(text)]) if text else b""
    return [head + text + request.SerializeToString()]


def _set(options: Message, sent: Sent) -> None:
    for name, value in sent.options.items():
        options[name] = as_text(value)


async def _visit(
    address: str, door: Door, sent: Sent, messages_of: Callable[[Sent, Method], list[bytes]]
) -> Answer:
    method, over = _METHODS[door.address], threading.Event()

    def requests() -> Iterator[bytes]:
        yield from messages_of(sent, method)
        if not sent.ends:
            over.wait()

    # A pool of its own: visits to one address would share a connection. In a thread, as grpc.aio
    # takes one loop of a process.
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
    with grpc.insecure_channel(address, options=options) as channel:
        metadata = (("x-request-id", sent.request_id),) if sent.request_id else ()
        call = channel.stream_stream(door.address)(requests(), metadata=metadata)
        # Not the pool of the loop, which many visits that wait would fill.
        with ThreadPoolExecutor(1) as pool:
            try:
                work = partial(_answer, call, method)
                return await asyncio.get_running_loop().run_in_executor(pool, work)
            finally:
                over.set()
                call.cancel()


def _answer(call: Any, method: Method) -> Answer:
    said: list[str] = []
    try:
        for data in call:
            said += _said(method.response.FromString(data))
    except grpc.RpcError as error:
        # The status is that of a connection that is lost, too; only a gateway says when to retry.
        is_busy = "retry-after" in dict(error.trailing_metadata() or ())
        status = "503" if is_busy else error.code().name
        return Answer(status, str(error.details()), is_gateway=True)
    return Answer("OK", is_gateway=True, said="audio" if "audio" in said else " ".join(said))


def _said(response: Message) -> list[str]:
    """Return the final texts of a response, or `audio`."""
    if "audio" in response.DESCRIPTOR.fields_by_name:
        return ["audio"] if response.audio else []
    return [
        result.alternatives[0].transcript.strip()
        for result in response.results
        if getattr(result, "is_final", True) and result.alternatives
    ]


file_visit = partial(_visit, messages_of=_file_messages)
stream_visit = partial(_visit, messages_of=_stream_messages)
text_visit = partial(_visit, messages_of=_text_messages)
