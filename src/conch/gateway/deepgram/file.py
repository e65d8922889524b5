"""`POST /v1/listen`: a recording as Deepgram's clients send it."""

import asyncio

from aiohttp import web

from conch.audio.encoding import wav_header
from conch.gateway.deepgram import parameters
from conch.gateway.deepgram.results import file_answer
from conch.gateway.doors import DEEPGRAM_FILE
from conch.gateway.errors import ApiError
from conch.gateway.form import uploaded_bare
from conch.gateway.limits import check_length
from conch.gateway.option_fields import granted
from conch.gateway.state import CALLER, GATEWAY, REQUEST_ID
from conch.gateway.transcriptions import transcript_of
from conch.wire.result import strict_json

_WAV = {"pcm16": (1, 16), "float32": (3, 32), "alaw": (6, 8), "mulaw": (7, 8)}
"""Format tag of WAV and bits of a sample, by encoding."""


async def listen(request: web.Request) -> web.Response:
    gateway, caller = request.app[GATEWAY], request[CALLER]
    if request.content_type == "application/json":
        message = "the body takes audio: this server fetches no url"
        raise ApiError(415, message, param="url", code="unsupported_media_type")
    asked = parameters.parse([*request.query.items()], gateway.model_aliases, live=False)
    head = b""
    if asked.encoding in _WAV:
        tag, bits = _WAV[asked.encoding]
        head = wav_header(asked.sample_rate, None, asked.channels, tag, bits)
    with gateway.file_of(caller) as begin:
        async with uploaded_bare(request, head) as form:
            begin()
            options, _ = await granted(gateway.servers, asked.options, asked.wishes, live=False)
            await asyncio.to_thread(check_length, form.file, gateway.config.max_audio_s)
            transcript = await transcript_of(request, form, options, DEEPGRAM_FILE.address)
            known = request[REQUEST_ID], form.digest
            # In a thread: an hour of words takes a while to write.
            text = await asyncio.to_thread(
                lambda: strict_json(file_answer(transcript, asked, *known))
            )
            return web.Response(text=text, content_type="application/json")
