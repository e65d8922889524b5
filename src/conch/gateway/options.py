"""The options of a request as the web page shows them."""

from dataclasses import Field
from typing import Any

from aiohttp import web

import conch
from conch.wire.options import all_options, default_of, kind_of, words_of

_RECORDINGS_ONLY = ("channels", "coverage")


async def list_options(request: web.Request) -> web.Response:
    """Answer with every option: its type, range, default and meaning."""
    options = [_described(item) for item in all_options().values()]
    return web.json_response({"version": conch.__version__, "options": options})


def takes_live(item: "Field[Any]") -> bool:
    """Return whether live audio takes an option."""
    return item.name not in _RECORDINGS_ONLY


def _described(item: "Field[Any]") -> dict[str, Any]:
    kind, words = kind_of(item), words_of(item)
    meaning: str = item.metadata["help"]
    is_live_only = meaning.startswith("live")
    return {
        "name": item.name,
        "kind": kind.__name__ if kind is not None else "choice",
        "default": item.default,
        "default_in_words": default_of(item),
        "low": item.metadata["low"],
        "high": item.metadata["high"],
        "choices": list(words) or None,
        "help": meaning,
        "decoders": list(item.metadata["decoders"]),
        "live": takes_live(item),
        "recordings": not is_live_only,
    }
