"""`POST /v1/audio/transcriptions`, `/v1/audio/translations` and `/v1/audio/diarization`."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from aiohttp import web

from conch.client import AsyncClient, joined_parts
from conch.client.tensors import StoredFile
from conch.gateway import file_answer, file_request
from conch.gateway.bodies import StreamedAnswer, event_bytes
from conch.gateway.doors import TRANSCRIPTIONS
from conch.gateway.errors import ApiError, api_error
from conch.gateway.file_request import FileRequest
from conch.gateway.form import Form, uploaded
from conch.gateway.limits import check_length
from conch.gateway.servers import recognition_request
from conch.gateway.state import CALLER, FAILURE, GATEWAY, REQUEST_ID
from conch.wire.entry_points import ENTRY_POINTS
from conch.wire.errors import ConchError, OptionError
from conch.wire.options import RecognitionOptions
from conch.wire.result import Transcript
from conch.wire.speaker_names import renamed, with_names

ROUTE = TRANSCRIPTIONS.address
HEADERS_S = 2.0
"""Seconds after which the headers of a streamed answer leave without an event: most errors of the
request are known before, and get their status."""


async def transcribe(request: web.Request) -> web.StreamResponse:
    """Answer with the text of a file, whole or as it is recognised.

    A client that goes away cancels this, and with it the work of the server.
    """
    return await _answered(request, {})


async def translate(request: web.Request) -> web.StreamResponse:
    try:
        return await _answered(request, {"task": "translate"})
    except OptionError as error:
        if (failure := api_error(error)).param != "task":
            raise
        raise ApiError(
            400,
            f"this model does not translate: {failure}; /v1/audio/transcriptions writes what was "
            "said, in the language that was spoken",
            param="model",
            code="not_supported",
        ) from None


async def diarize(request: web.Request) -> web.StreamResponse:
    return await _answered(request, {"decoder": "none"}, file_request.DIARIZATION)


async def _answered(
    request: web.Request,
    forced: Mapping[str, str],
    formats: Mapping[str, str] = file_request.FORMATS,
) -> web.StreamResponse:
    """Answer with what a file says, by the options of its form and those that are forced."""
    gateway, caller = request.app[GATEWAY], request[CALLER]
    with gateway.file_of(caller) as begin:
        async with uploaded(request) as form:
            begin()
            fields = file_request.parse(form.fields, gateway.model_aliases, forced, formats)
            await asyncio.to_thread(check_length, form.file, gateway.config.max_audio_s)
            work = _TranscriptionAnswer(request, form, fields)
            return await (work.stream() if fields.is_streamed else work.answer())


async def transcript_of(
    request: web.Request, form: Form, options: RecognitionOptions, route: str
) -> Transcript:
    """Return what a file says, and count its seconds for the caller."""
    gateway = request.app[GATEWAY]
    inference = recognition_request(StoredFile(form.file), options, request[REQUEST_ID])
    work = gateway.servers.answer(lambda client: client.infer(inference), form.digest)
    transcript = await gateway.unless_broken_off(work)
    gateway.count_audio(request[CALLER], route, transcript.duration)
    return transcript


class _TranscriptionAnswer:
    def __init__(self, request: web.Request, form: Form, fields: FileRequest) -> None:
        self._request, self._form, self._fields = request, form, fields
        self._gateway, self._id = request.app[GATEWAY], request[REQUEST_ID]
        self._stream = StreamedAnswer(request, "text/event-stream", file_answer.headers(fields))

    async def answer(self) -> web.Response:
        fields = self._fields
        transcript = await transcript_of(self._request, self._form, fields.options, ROUTE)
        transcript = with_names(transcript, fields.speaker_names)
        # In a thread: an hour of words takes a while to write.
        text = await asyncio.to_thread(file_answer.body, transcript, self._fields)
        return web.Response(
            text=text,
            content_type=file_answer.CONTENT_TYPES.get(self._fields.format, "application/json"),
            headers=file_answer.headers(self._fields, transcript.warnings),
        )

    async def stream(self) -> web.StreamResponse:
        """Answer with server-sent events: the segments as they become final, then the whole.

        The headers leave with the first event, or after HEADERS_S without one. An error has a
        status before them, and is an event after them.
        """
        try:
            # Before its first part an answer may still come from another server.
            await self._gateway.servers.answer(self._send_events, self._form.digest)
        except (ApiError, ConchError) as error:
            if not self._stream.prepared:
                raise
            failure = self._request[FAILURE] = api_error(error)
            await self._stream.send_event({"error": failure.as_dict()})
        await self._stream.write_eof()
        return self._stream

    async def _send_events(self, client: AsyncClient) -> None:
        """Send the events of a server, or raise a ConchError; after the first part, an ApiError."""
        deltas, received = file_answer.Deltas(self._fields), list[Transcript]()
        try:
            # A server that is lost after the first part counts, too, though nothing is sent again.
            with self._gateway.servers.losses.attempt(self._form.digest):
                async with aclosing(self._parts(client)) as parts:
                    async for part in parts:
                        received.append(part)
                        await self._stream.prepare(self._request)  # it has an effect once
                        for event in deltas.of_part(renamed(part, self._fields.speaker_names)):
                            await self._stream.send_event(event)

            def last() -> bytes:
                whole = joined_parts(received, self._fields.options.nbest)
                whole = with_names(whole, self._fields.speaker_names)
                events = (*deltas.of_turns(whole), deltas.of_whole(whole))
                return b"".join(map(event_bytes, events))

            # In a thread: an hour of words takes a while to join and to write.
            await self._stream.write(await asyncio.to_thread(last))
        except ConchError as error:
            if not received:
                raise
            raise api_error(error) from error
        finally:
            if received:
                self._gateway.count_audio(self._request[CALLER], ROUTE, received[-1].duration)

    def _parts(self, client: AsyncClient) -> AsyncGenerator[Transcript, None]:
        """Yield the parts of an answer, and send comments while none comes."""
        file = StoredFile(self._form.file)
        request = recognition_request(file, self._fields.options, self._id, ENTRY_POINTS[1])
        return self._gateway.unbroken(client.infer_parts(request), self._commented)

    async def _commented(self, coming: "asyncio.Future[Transcript]") -> None:
        comment_s = self._gateway.config.times.comment_s
        while not coming.done():
            patience_s = comment_s if self._stream.prepared else HEADERS_S
            if not (await asyncio.wait([coming], timeout=patience_s))[0]:
                await self._stream.prepare(self._request)
                await self._stream.write(b": still at work\n\n")
