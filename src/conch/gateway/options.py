"""`GET /v1/options` and `/v1/components`: the options of a request, and the components it needs."""

from dataclasses import Field, dataclass
from typing import Any

import msgspec
from aiohttp import web
from multidict import MultiDict

import conch
from conch.families import decoders, takers
from conch.gateway import file_request
from conch.gateway.listen_query import query_of
from conch.gateway.option_fields import taken_options
from conch.gateway.state import GATEWAY
from conch.wire.needs import components_for, components_that_speak
from conch.wire.option_values import default_of, type_of, words_of
from conch.wire.options import is_of_first_pass
from conch.wire.synthesis import SynthesisOptions

_RECORDINGS_ONLY = ("channels", "coverage", "speaker_embeddings")


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a request."""

    name: str
    """The field's name."""
    kind: str
    """Type of its values other than its choices: bool, int, float, str or choice."""
    default: bool | int | float | str | None
    """null where other options decide."""
    default_in_words: str
    """The default in words, where other options decide."""
    low: float | None
    """Smallest number."""
    high: float | None
    """Largest number."""
    choices: tuple[str, ...] | None
    """Words that it takes."""
    help: str
    """Its meaning."""
    decoders: tuple[str, ...]
    """Decoders that take it; empty for all."""
    live_decoders: tuple[str, ...]
    """Decoders that take it in live audio; empty for all."""
    by_accuracy: bool
    """Whether the option `accuracy` sets it too."""
    live: bool
    """Whether live audio takes it."""
    recordings: bool
    """Whether it changes anything for files."""


async def list_options(request: web.Request) -> web.Response:
    """Answer with every option: its type, range, default and meaning."""
    options = [described(item) for item in taken_options().values()]
    body = msgspec.json.encode({"version": conch.__version__, "options": options})
    return web.Response(body=body, content_type="application/json")


async def list_components(request: web.Request) -> web.Response:
    """Answer with the components that the query's fields need; with a voice, those that speak."""
    aliases = request.app[GATEWAY].model_aliases
    query = MultiDict(request.query)
    if voice := query.get("voice"):
        found = components_that_speak(SynthesisOptions.parse({"voice": voice}).voice)
        body = msgspec.json.encode({"components": found})
        return web.Response(body=body, content_type="application/json")
    if query.pop("live", "false").lower() in ("true", "1"):
        options = query_of(list(query.items()), aliases).options
    else:
        fields = {name: tuple(query.getall(name)) for name in query}
        options = file_request.parse(fields, aliases).options
    body = msgspec.json.encode({"components": components_for(options)})
    return web.Response(body=body, content_type="application/json")


def takes_live(item: "Field[Any]") -> bool:
    return item.name not in _RECORDINGS_ONLY


def described(item: "Field[Any]") -> Option:
    kind, data = type_of(item), item.metadata
    default: Any = item.default
    taken_by = takers(item)
    # A decoder that hears no live audio has the second pass, and another one the first.
    of_second = [decoder.name for decoder in decoders().values() if not decoder.live]
    return Option(
        name=item.name,
        kind=kind.__name__ if kind is not None else "choice",
        default=default,
        default_in_words=default_of(item),
        low=data["low"],
        high=data["high"],
        choices=words_of(item) or None,
        help=data["help"],
        decoders=taken_by,
        live_decoders=(
            tuple(dict.fromkeys((*taken_by, *of_second))) if is_of_first_pass(item) else taken_by
        ),
        by_accuracy=any(
            item.name in preset
            for decoder in decoders().values()
            for preset in decoder.presets.values()
        ),
        live=takes_live(item),
        recordings=not data["help"].startswith("live"),
    )
