"""`/v1/audio/voices`: the voices of a server, and voices that are fitted to recordings.

The address and the fields `name` and `audio_sample` are those of OpenAI's custom voices.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TypeVar

from aiohttp import web

from conch.client import AsyncClient
from conch.fitted_voices import FittedVoice
from conch.gateway.errors import ApiError, invalid
from conch.gateway.form import uploaded
from conch.gateway.servers import READY_TIMEOUT_S
from conch.gateway.state import CALLER, GATEWAY
from conch.gateway.voicing import served_voices
from conch.wire.entry_points import FITTING
from conch.wire.errors import ConchError, OptionError

Answer = TypeVar("Answer")

SAMPLES, CONSENT = "audio_sample", "consent"
"""Fields with files."""
DEFAULT_MINUTES = 10


async def list_voices(request: web.Request) -> web.Response:
    """Answer with the voices that the server speaks, the default first, and those in work."""
    gateway = request.app[GATEWAY]
    voices = await served_voices(gateway)
    objects = [{"id": voice.name, **asdict(voice)} for voice in voices]
    answer: dict[str, Any] = {"object": "list", "voices": objects}
    if FITTING in await gateway.servers.ready_models([FITTING]):
        # Servers that share a folder have the same voices.
        fitted = {
            voice.name: voice.as_dict()
            for client in gateway.servers.clients
            for voice in await _fitted(client)
        }
        answer["fitted"] = [*fitted.values()]
    return web.json_response(answer)


async def fit_voice(request: web.Request) -> web.Response:
    """Begin to fit a voice to the recordings of a form; answer with the voice."""
    gateway, caller = request.app[GATEWAY], request[CALLER]
    if FITTING not in await gateway.servers.ready_models([FITTING]):
        message = "no voices are fitted here; conch serve --voices-from-recordings does"
        raise ApiError(400, message, code="not_supported")
    with gateway.text_of(caller) as begin:
        async with uploaded(request, files=(SAMPLES, CONSENT)) as form:
            begin()
            fields = {name: values[-1] for name, values in form.fields.items()}
            name, minutes = fields.pop("name", ""), fields.pop("minutes", str(DEFAULT_MINUTES))
            if fields:
                field = next(iter(fields))
                takes = f"fields are name, minutes, {SAMPLES}, {CONSENT}"
                raise invalid(field, f"{takes}; sent: {field:.80}")
            if not minutes.isdecimal() or len(minutes) > 3:
                takes = "minutes takes a whole number from 1 to 120"
                raise invalid("minutes", f"{takes}; sent: {minutes:.80}")
            samples = form.files.get(SAMPLES, ()) + form.files.get(f"{SAMPLES}[]", ())
            if not samples:
                raise invalid(SAMPLES, f"a voice takes 3 to 50 recordings, each in {SAMPLES}")
            consent = next(iter(form.files.get(CONSENT, ())), None)
            fitting = gateway.servers.answer(
                lambda client: client.fit_voice(
                    name, samples, minutes=int(minutes), consent=consent
                ),
                form.digest,
            )
            return _answer(await fitting)


async def get_voice(request: web.Request) -> web.Response:
    return _answer(await _asked(request, lambda client, name: client.fitted_voice(name)))


async def stop_fitting(request: web.Request) -> web.Response:
    """End the work on a voice, which is kept as it is."""
    return _answer(await _asked(request, lambda client, name: client.stop_fitting(name)))


async def remove_voice(request: web.Request) -> web.Response:
    """Delete a voice, also one in work."""
    await _asked(request, lambda client, name: client.remove_voice(name))
    name = request.match_info["name"]
    return web.json_response({"id": name, "object": "audio.voice.deleted", "deleted": True})


async def _asked(
    request: web.Request, ask: Callable[[AsyncClient, str], Awaitable[Answer]]
) -> Answer:
    """Return the answer of the server that has the voice of a request's path."""
    gateway, name = request.app[GATEWAY], request.match_info["name"]
    gateway.count_request(request[CALLER])
    for client in gateway.servers.clients:
        # Another server may have it.
        with suppress(OptionError):
            return await ask(client, name)
    message = f"there is no fitted voice {name!r:.80}"
    raise ApiError(404, message, param="name", code="voice_not_found")


async def _fitted(client: AsyncClient) -> list[FittedVoice]:
    """Return the fitted voices of a server; none if it fits no voices, or does not answer."""
    with suppress(ConchError):
        return await client.fitted_voices(timeout_s=READY_TIMEOUT_S)
    return []


def _answer(voice: FittedVoice) -> web.Response:
    return web.json_response(voice.as_dict())
