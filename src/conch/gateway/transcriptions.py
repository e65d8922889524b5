"""`POST /v1/audio/transcriptions` and `/v1/audio/translations`: the text of a file."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from aiohttp import web

from conch.audio.lengths import length_of
from conch.client import AsyncClient, joined_parts
from conch.client.tensors import StoredFile
from conch.client.triton_grpc import GRACE_S
from conch.gateway import file_answer, file_request
from conch.gateway.access import cors_headers
from conch.gateway.errors import ApiError, api_error
from conch.gateway.file_request import FileRequest
from conch.gateway.form import Form, uploaded
from conch.gateway.state import CALLER, GATEWAY, REQUEST_ID, Gateway, cancelled
from conch.wire.errors import ConchError, OptionError, PoisonError
from conch.wire.result import Transcript, strict_json

logger = logging.getLogger(__name__)

ROUTE = "/v1/audio/transcriptions"
HEADERS_S = 2.0
"""Seconds after which the headers of a streamed answer leave without an event: most errors of the
request are known before, and get their status."""
KEEP_ALIVE_S = 15.0
"""Seconds of silence after which a streamed answer says that it is still there."""

Item = TypeVar("Item")


async def transcribe(request: web.Request) -> web.StreamResponse:
    """Answer with the text of a file, whole or as it is recognised.

    A client that goes away cancels this, and with it the work of the server.
    """
    return await _answered(request, {})


async def translate(request: web.Request) -> web.StreamResponse:
    """Answer with the text of a file in English.

    Raises:
        ApiError: the model does not translate, which is known once it is to decode speech.
    """
    try:
        return await _answered(request, {"task": "translate"})
    except OptionError as error:
        if (found := api_error(error)).param != "task":
            raise
        raise ApiError(
            400,
            f"this model does not translate: {found}; /v1/audio/transcriptions writes what was "
            "said, in the language that was spoken",
            param="model",
            code="not_supported",
        ) from None


async def _answered(request: web.Request, forced: Mapping[str, str]) -> web.StreamResponse:
    """Answer with the text of a file, by the options of its form and those that are forced."""
    gateway, caller = request.app[GATEWAY], request[CALLER]
    with gateway.file_of(caller):
        async with uploaded(request, gateway.config.max_body_mb, gateway.uploads) as form:
            asked = file_request.parse(form.fields, gateway.config.model_aliases, forced)
            await _check_length(form, gateway.config.max_audio_s)
            try:
                return await (_stream if asked.is_streamed else _answer)(
                    request, gateway, form, asked
                )
            except PoisonError:
                _log_poison(request, form.digest)
                raise


def _log_poison(request: web.Request, digest: str) -> None:
    names = request[REQUEST_ID], request[CALLER].name, digest
    logger.error("request %s of key %s ends servers: the file has the SHA-256 %s", *names)


async def _check_length(form: Form, max_audio_s: float) -> None:
    """Check what the file tells of its length; the server checks what it decodes."""
    if not max_audio_s:
        return
    seconds = await asyncio.to_thread(length_of, form.file)
    if seconds is not None and seconds > max_audio_s:
        raise ApiError(
            413,
            f"the file has {seconds:.0f} s of audio; this server takes at most {max_audio_s:g} s",
            param="file",
            code="audio_too_long",
        )


async def _answer(
    request: web.Request, gateway: Gateway, form: Form, asked: FileRequest
) -> web.Response:
    """Answer with the whole transcript."""

    async def ask(client: AsyncClient) -> Transcript:
        file = StoredFile(form.file)
        return await client.transcribe(file, request_id=request[REQUEST_ID], **asked.options)

    transcript = await gateway.unless_broken_off(gateway.servers.answer(ask, form.digest))
    gateway.heard(request[CALLER], ROUTE, transcript.duration)
    # In a thread: an hour of words takes a while to write.
    text = await asyncio.to_thread(file_answer.body, transcript, asked)
    return web.Response(
        text=text,
        content_type=file_answer.CONTENT_TYPES[asked.format],
        headers=_headers(asked, transcript.warnings),
    )


def _headers(asked: FileRequest, of_audio: tuple[str, ...] = ()) -> dict[str, str]:
    """Return headers that tell what was of no use, and the warnings."""
    names = [name for name in asked.ignored if name.isascii() and name.isprintable()]
    # Proxies take 4 to 8 kB of headers, and a client chooses the names.
    shown = names[: file_request.MAX_IGNORED]
    ignored = {"x-conch-ignored": ", ".join(shown)} if shown else {}
    return ignored | file_answer.warning_headers((*asked.warnings, *of_audio))


async def _stream(
    request: web.Request, gateway: Gateway, form: Form, asked: FileRequest
) -> web.StreamResponse:
    """Answer with server-sent events: the segments as they become final, then the whole.

    The headers leave with the first event, or after HEADERS_S without one. An error has a status
    before them, and is an event after them.
    """
    answer = web.StreamResponse(
        headers={
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-cache",
            "X-Accel-Buffering": "no",
            "x-request-id": request[REQUEST_ID],
            **_headers(asked),
            **cors_headers(request),
        }
    )

    async def ask(client: AsyncClient) -> None:
        await _send_events(answer, client, request, gateway, form, asked)

    try:
        # Before its first part an answer may still come from another server.
        await gateway.servers.answer(ask, form.digest)
    except (ApiError, ConchError) as error:
        if not answer.prepared:
            raise
        if isinstance(error, PoisonError):
            _log_poison(request, form.digest)
        found = api_error(error) if isinstance(error, ConchError) else error
        await _send(answer, {"error": found.as_dict()})
    await answer.write_eof()
    return answer


async def _send_events(
    answer: web.StreamResponse,
    client: AsyncClient,
    request: web.Request,
    gateway: Gateway,
    form: Form,
    asked: FileRequest,
) -> None:
    """Send the events of one server.

    Raises:
        ApiError: the server has answered with an error, or was lost, after the first part.
        ConchError: the same before the first part.
    """
    deltas, heard = file_answer.Deltas(asked), list[Transcript]()

    async def keep_open() -> None:
        await answer.prepare(request)  # it has an effect once
        await answer.write(b": still at work\n\n")

    file = StoredFile(form.file)
    parts = client.stream(file, request_id=request[REQUEST_ID], **asked.options)
    try:
        # A server that is lost after the first part counts, too, though nothing is sent again.
        with gateway.servers.losses.attempt(form.digest):
            async with aclosing(parts):
                coming = _with_keep_alive(
                    _unless_broken_off(gateway, parts),
                    lambda: KEEP_ALIVE_S if answer.prepared else HEADERS_S,
                    keep_open,
                )
                async for part in coming:
                    heard.append(part)
                    await answer.prepare(request)
                    for event in deltas.of_part(part):
                        await _send(answer, event)
        # In a thread: an hour of words takes a while to join and to write.
        await answer.write(await asyncio.to_thread(_last_event, deltas, heard, asked.nbest))
    except ConchError as error:
        if not heard:
            raise
        if isinstance(error, PoisonError):
            _log_poison(request, form.digest)
        raise api_error(error) from error
    finally:
        if heard:
            gateway.heard(request[CALLER], ROUTE, heard[-1].duration)


def _last_event(deltas: file_answer.Deltas, heard: list[Transcript], nbest: int) -> bytes:
    return _written(deltas.of_whole(joined_parts(heard, nbest)))


async def _send(answer: web.StreamResponse, event: dict[str, Any]) -> None:
    await answer.write(_written(event))


def _written(event: dict[str, Any]) -> bytes:
    """Return an event as it is sent; its type is in the data, as OpenAI's clients expect."""
    transcript = event.get("transcript")
    if isinstance(transcript, Transcript):
        data = f'{{"type": "{event["type"]}", "transcript": {transcript.to_json()}}}'
    else:
        data = strict_json(event)
    return f"data: {data}\n\n".encode()


async def _unless_broken_off(
    gateway: Gateway, items: AsyncGenerator[Item, None]
) -> AsyncGenerator[Item, None]:
    """Yield items; raise an ApiError once a stop has no more time for them."""
    while True:
        try:
            yield await gateway.unless_broken_off(anext(items))
        except StopAsyncIteration:
            return


async def _with_keep_alive(
    items: AsyncGenerator[Item, None],
    patience_s: Callable[[], float],
    keep_alive: Callable[[], Awaitable[None]],
) -> AsyncIterator[Item]:
    """Yield items, and call `keep_alive` whenever none came for `patience_s` seconds."""
    while True:
        coming = asyncio.ensure_future(anext(items))
        try:
            while not (await asyncio.wait([coming], timeout=patience_s()))[0]:
                await keep_alive()
            item = coming.result()
        except StopAsyncIteration:
            return
        finally:
            # A part, or the end, may be about to come: see `conch.client.triton_grpc`.
            await cancelled(coming, GRACE_S)
        yield item
