"""`GET /v1/components`: the components of Conch, and which of them a request needs."""

from dataclasses import dataclass, replace

import msgspec
from aiohttp import web
from multidict import MultiDict

from conch.gateway import file_request
from conch.gateway.listen_query import query_of
from conch.gateway.state import GATEWAY
from conch.wire.needs import components_of
from conch.wire.options import RecognitionOptions


@dataclass(frozen=True, slots=True)
class Component:
    """A component of Conch: a model that requests call."""

    name: str
    """Name of the model."""
    title: str
    """What a person calls it."""
    family: str
    """Components of one family work together in a path."""
    step: str
    """What it does in a path. The steps follow each other in the order of the list."""
    needed: str | None = None
    """The option for which the request needs it, such as decoder=ctc; null if it does not."""


COMPONENTS = (
    Component("vad", "Speech", "vad", "find speech"),
    Component("attention_encoder", "Whisper", "attention", "encode"),
    Component("ctc_encoder", "CTC", "ctc", "encode"),
    Component("ctc_streaming_encoder", "CTC, live", "ctc_streaming", "encode"),
    Component("attention_decoder", "Whisper", "attention", "decode"),
    Component("ctc_decoder", "CTC", "ctc", "decode"),
    Component("ctc_streaming_decoder", "CTC, live", "ctc_streaming", "decode"),
    Component("neural_rescorer", "Neural", "neural", "rescore"),
    Component("rescorer", "N-gram", "ngram", "rescore"),
    Component("punctuator", "Punctuation", "punctuation", "write"),
    Component("inverse_normalizer", "Numbers", "inverse_normalization", "write"),
)
"""All components, in the order of a path."""


def components_for(options: RecognitionOptions) -> list[Component]:
    """Return all components, each with the option that needs it; last the models of `post`."""
    needs = components_of(options)
    known = {item.name for item in COMPONENTS}
    of_post = [Component(name, name, name, "write") for name in needs if name not in known]
    return [replace(item, needed=needs.get(item.name)) for item in (*COMPONENTS, *of_post)]


async def list_components(request: web.Request) -> web.Response:
    """Answer with the components that a request with the fields of the query would need.

    Raises:
        ApiError: a field has a value that it does not take.
        OptionError: an option of Conch has one.
    """
    aliases = request.app[GATEWAY].config.model_aliases
    query = MultiDict(request.query)
    if query.pop("live", "false").lower() in ("true", "1"):
        options = query_of(list(query.items()), aliases).parsed
    else:
        fields = {name: tuple(query.getall(name)) for name in query}
        options = file_request.parse(fields, aliases).parsed
    body = msgspec.json.encode({"components": components_for(options)})
    return web.Response(body=body, content_type="application/json")
