"""The models of the API: each is a path through Conch."""

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from aiohttp import web

from conch.client import OptionValue
from conch.families import decoders, voices
from conch.gateway.errors import ApiError
from conch.gateway.state import GATEWAY, Gateway
from conch.wire.entry_points import SYNTHESIS
from conch.wire.needs import components_of
from conch.wire.options import RecognitionOptions

DEFAULT_MODEL = "conch"
OPENAI_MODELS = (
    *("whisper-1", "gpt-transcribe", "gpt-4o-transcribe", "gpt-4o-mini-transcribe"),
    *("gpt-4o-transcribe-diarize", "gpt-live-transcribe", "gpt-realtime-whisper"),
)
"""OpenAI's names, for clients that send no other: AudioModel and AudioTranscription.model of
openai-python v3.54.0."""
SPEECH_MODELS = (DEFAULT_MODEL, "tts-1", "tts-1-hd", "gpt-4o-mini-tts")
"""Names of what speaks texts: the voice decides, and they are all the same."""
_DATE = re.compile(r"-[0-9]{4}-[0-9]{2}-[0-9]{2}$")
"""End of the name of a version of one of OpenAI's models."""
PATHS: Mapping[str, Mapping[str, OptionValue]] = {
    DEFAULT_MODEL: {},
    **{name: {} for name in OPENAI_MODELS},
    **{f"conch-{name}": {"decoder": name} for name, item in decoders().items() if item.components},
}
CREATED = 1_767_225_600
"""Creation time of all models, in seconds since 1970: clients want a number."""


def options_of(model: str, aliases: Mapping[str, str]) -> Mapping[str, OptionValue]:
    """Return the options of a model, empty for the default; raise an ApiError if unknown."""
    name = known_name(model, aliases) or DEFAULT_MODEL
    meant = aliases.get(name, name)
    if meant in PATHS:
        return PATHS[meant]
    if name not in aliases:
        raise unknown_model(model, aliases)
    return {"model": meant}


def known_name(model: str, aliases: Mapping[str, str]) -> str:
    """Return a model's name, without its date if it is a version of one of OpenAI's models."""
    undated = _DATE.sub("", model)
    is_known = undated in (*OPENAI_MODELS, *SPEECH_MODELS[1:]) and model not in aliases
    return undated if is_known else model


def unknown_model(model: str, aliases: Mapping[str, str], models: Iterable[str] = ()) -> ApiError:
    """Return the error of a model that does not exist.

    `models` are all that could be meant; none if that depends on the components of the servers.
    """
    known = ", ".join(dict.fromkeys([*(models or [DEFAULT_MODEL]), *aliases]))
    others = "" if models else ", and others, which GET /v1/models lists"
    return ApiError(
        404,
        f"no model {model!r:.80}; this server has {known}{others}; its operator adds names by "
        "--model-alias",
        param="model",
        code="model_not_found",
    )


async def list_models(request: web.Request) -> web.Response:
    """Answer with the models whose components a server has, or loads when it needs them."""
    names = await servable(request.app[GATEWAY])
    return web.json_response({"object": "list", "data": [model_object(name) for name in names]})


async def get_model(request: web.Request) -> web.Response:
    gateway = request.app[GATEWAY]
    name, aliases = request.match_info["model"], gateway.model_aliases
    names = await servable(gateway)
    if known_name(name, aliases) not in names:
        raise unknown_model(name, aliases, names)
    return web.json_response(model_object(name))


async def servable(gateway: Gateway) -> list[str]:
    """Return the names of the models whose components are loaded, now or on demand."""
    aliases = gateway.model_aliases
    ways = {
        name: [
            set(components_of(options))
            for options in RecognitionOptions.candidates(options_of(name, aliases))
        ]
        for name in (*PATHS, *aliases)
        if name not in gateway.servers.models
    }
    speaking = {SYNTHESIS[1], *next(iter(voices().values())).components}
    ways |= {name: [speaking] for name in SPEECH_MODELS if name not in ways}
    ready = await gateway.servers.ready_models(sorted(set().union(*chain(*ways.values()))))
    names = [name for name, needed in ways.items() if any(way <= ready for way in needed)]
    return [*names, *gateway.servers.models]


def model_object(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "conch"}
