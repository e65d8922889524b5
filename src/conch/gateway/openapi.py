"""The API's description of itself: `/openapi.json`, `/v1/options` and `/v1/components`.

The text of the OpenAPI 3.1 document is in `openapi.yaml`. Options of requests and schemas of
Conch's own types are made from the code, so that none of them can be missing.
"""

import ast
import inspect
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import cache
from importlib import resources
from typing import Any, TypeAlias, cast, get_args, get_type_hints

import msgspec
from aiohttp import web
from multidict import MultiDict

import conch
from conch.families import decoders, takers
from conch.fitted_voices import FittedVoice
from conch.gateway import file_request, voicing
from conch.gateway.deepgram.parameters import FileParameters, LiveParameters
from conch.gateway.deepgram.speak import SpeakParameters
from conch.gateway.deepgram.turns import TurnParameters
from conch.gateway.file_request import DIARIZATION
from conch.gateway.format import FormatRequest
from conch.gateway.listen import query_of
from conch.gateway.option_fields import taken_options
from conch.gateway.state import GATEWAY
from conch.wire.needs import Component, components_for, components_that_speak
from conch.wire.option_values import default_of, type_of, words_of
from conch.wire.options import is_of_first_pass
from conch.wire.result import Transcript
from conch.wire.synthesis import Spoken, SynthesisOptions

Schema: TypeAlias = dict[str, Any]

_SCHEMA_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}

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
    """The meaning of the option."""
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


async def document(request: web.Request) -> web.Response:
    return web.Response(body=_document_as_json(), content_type="application/json")


@cache
def _document_as_json() -> bytes:
    return msgspec.json.encode(make_document())


def make_document() -> Schema:
    text = (resources.files("conch.gateway") / "openapi.yaml").read_bytes()
    document: Schema = msgspec.yaml.decode(text)
    document["info"]["version"] = conch.__version__
    for methods in document["paths"].values():
        for operation in methods.values():
            name = operation["summary"].split(" (")[0].replace(",", "")
            operation["operationId"] = name.replace(" ", "_").lower()
            error = {"$ref": "#/components/responses/Error"}
            operation["responses"].setdefault("default", error)
    schemas = document["components"]["schemas"]
    schemas |= _schemas_of(Transcript, Option, Component, FormatRequest, Spoken, FittedVoice)
    # What to_json adds to the fields.
    best = {"type": "string", "description": "The best candidate."}
    for name in ("Transcript", "Segment"):
        schemas[name]["properties"]["text"] = best
        schemas[name]["required"].append("text")
    # A live text that is not final may lack it.
    schemas["Transcript"]["required"].remove("nbest")
    spoken = {item.name: of_option(item) for item in fields(SynthesisOptions)}
    del spoken["format"]  # response_format
    schemas["SpeechRequest"]["properties"] |= spoken
    form = schemas["TranscriptionForm"]
    form["properties"] |= {item.name: of_option(item) for item in taken_options().values()}
    without_task = {name: item for name, item in form["properties"].items() if name != "task"}
    schemas["TranslationForm"] = {**form, "properties": without_task}
    turns = {"response_format": {"type": "string", "enum": [*DIARIZATION], "default": "json"}}
    untold = ("stream", "decoder")
    spoken = {name: item for name, item in form["properties"].items() if name not in untold}
    schemas["DiarizationForm"] = {**form, "properties": spoken | turns}
    live = [item for item in taken_options().values() if item.name not in _RECORDINGS_ONLY]
    for path, method, options in (
        ("/v1/conch/listen", "get", live),
        ("/v1/conch/speak", "get", voicing.OPTIONS.values()),
        ("/v1/listen", "get", fields(LiveParameters)),
        ("/v2/listen", "get", fields(TurnParameters)),
        ("/v1/listen", "post", fields(FileParameters)),
        ("/v1/speak", "get", fields(SpeakParameters)),
        ("/v1/speak", "post", fields(SpeakParameters)),
    ):
        parameters = document["paths"][path][method].setdefault("parameters", [])
        parameters += map(_query_of_option, options)
    # As in JSON, which has no tuples.
    return cast(Schema, msgspec.json.decode(msgspec.json.encode(document)))


def of_option(item: "Field[Any]") -> Schema:
    """Return the schema of an option: type, range, default and meaning."""
    value_type, words = type_of(item), words_of(item)
    data = item.metadata
    notes = [data["help"]]
    if data["otherwise"]:
        notes.append(f"by default {data['otherwise']}")
    if taken_by := takers(item):
        notes.append(f"with decoder {' or '.join(taken_by)}")
    text = "; ".join(notes)
    schema: Schema = {"type": _SCHEMA_TYPES[value_type]} if value_type is not None else {}
    if data["low"] is not None:
        schema |= {"minimum": data["low"], "maximum": data["high"]}
    if words:
        choice = {"type": "string", "enum": list(words)}
        schema = {"anyOf": [choice, schema]} if schema else choice
    if item.default is not None:
        schema["default"] = item.default
    return {**schema, "description": f"{text[:1].upper()}{text[1:]}."}


def _query_of_option(item: "Field[Any]") -> Schema:
    schema = of_option(item)
    description = schema.pop("description")
    return {"name": item.name, "in": "query", "schema": schema, "description": description}


def _schemas_of(*types: type[Any]) -> dict[str, Schema]:
    """Return the schemas of types and of those inside them by name, with the notes of fields."""
    template = "#/components/schemas/{name}"
    _, schemas = msgspec.json.schema_components(types, ref_template=template)
    for cls in _with_inner(*types):
        schema = schemas[cls.__name__]
        schema["description"] = inspect.cleandoc(cls.__doc__ or "")
        for name, note in _notes(cls).items():
            schema["properties"].get(name, {})["description"] = note
    return schemas


def _with_inner(*types: type[Any]) -> set[type[Any]]:
    """Return types and those of their fields, where these have fields too."""
    seen: set[type[Any]] = set()
    left: list[Any] = list(types)
    while left:
        cls = left.pop()
        left += get_args(cls)
        if (is_dataclass(cls) or hasattr(cls, "__struct_fields__")) and cls not in seen:
            seen.add(cls)
            left += get_type_hints(cls).values()
    return seen


def _notes(cls: type[Any]) -> dict[str, str]:
    """Return the text below each field of a class: Python itself does not keep it."""
    body = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(body, ast.ClassDef)
    notes = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            note = ast.literal_eval(text.value)
            notes[ast.unparse(field.target)] = inspect.cleandoc(note).replace("`", "")
    return notes


async def list_options(request: web.Request) -> web.Response:
    options = [described(item) for item in taken_options().values()]
    body = msgspec.json.encode({"version": conch.__version__, "options": options})
    return web.Response(body=body, content_type="application/json")


async def list_components(request: web.Request) -> web.Response:
    """Answer with a server's components, and those of them that the query's fields need.

    Without a ready server it is all of Conch's. With a voice it is those that speak.
    """
    gateway = request.app[GATEWAY]
    aliases = gateway.model_aliases
    query = MultiDict(request.query)
    if voice := query.get("voice"):
        components = components_that_speak(SynthesisOptions.parse({"voice": voice}).voice)
    elif query.pop("live", "false").lower() in ("true", "1"):
        components = components_for(query_of(list(query.items()), aliases).options)
    else:
        fields = {name: tuple(query.getall(name)) for name in query}
        components = components_for(file_request.parse(fields, aliases).options)
    served = await gateway.servers.ready_models([item.name for item in components])
    if served:
        components = [item for item in components if item.needed or item.name in served]
    body = msgspec.json.encode({"components": components})
    return web.Response(body=body, content_type="application/json")


def described(item: "Field[Any]") -> Option:
    value_type, data = type_of(item), item.metadata
    default: Any = item.default
    taken_by = takers(item)
    # A decoder that hears no live audio has the second pass, and another one the first.
    of_second = [decoder.name for decoder in decoders().values() if not decoder.live]
    return Option(
        name=item.name,
        kind=value_type.__name__ if value_type is not None else "choice",
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
        live=item.name not in _RECORDINGS_ONLY,
        recordings=not data["help"].startswith("live"),
    )
