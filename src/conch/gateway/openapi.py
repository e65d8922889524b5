"""`GET /openapi.json`: the OpenAPI 3.1 document of the gateway.

Its text is in `openapi.yaml`. The options of requests and the schemas of Conch's own types are
made from the code, so that none of them can be missing.
"""

import ast
import inspect
from dataclasses import Field, fields, is_dataclass
from functools import cache
from importlib import resources
from typing import Any, TypeAlias, cast, get_args, get_type_hints

import msgspec
from aiohttp import web

import conch
from conch.families import takers
from conch.gateway import voicing
from conch.gateway.doors import SPEAK
from conch.gateway.file_request import DIARIZATION
from conch.gateway.format import FormatRequest
from conch.gateway.option_fields import taken_options
from conch.gateway.options import Option, takes_live
from conch.wire.needs import Component
from conch.wire.option_values import type_of, words_of
from conch.wire.result import Transcript
from conch.wire.synthesis import Spoken, SynthesisOptions

Schema: TypeAlias = dict[str, Any]

_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string"}


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
            operation["responses"]["default"] = {"$ref": "#/components/responses/Error"}
    schemas = document["components"]["schemas"]
    schemas |= _schemas_of(Transcript, Option, Component, FormatRequest, Spoken)
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
    document["paths"]["/v1/listen"]["get"]["parameters"] += [
        _query_of_option(item) for item in taken_options().values() if takes_live(item)
    ]
    document["paths"][SPEAK.address]["get"]["parameters"] += [
        _query_of_option(item) for item in voicing.OPTIONS.values()
    ]
    # As in JSON, which has no tuples.
    return cast(Schema, msgspec.json.decode(msgspec.json.encode(document)))


def of_option(item: "Field[Any]") -> Schema:
    """Return the schema of an option: type, range, default and meaning."""
    kind, words = type_of(item), words_of(item)
    data = item.metadata
    notes = [data["help"]]
    if data["otherwise"]:
        notes.append(f"by default {data['otherwise']}")
    if taken_by := takers(item):
        notes.append(f"with decoder {' or '.join(taken_by)}")
    text = "; ".join(notes)
    schema: Schema = {"type": _KINDS[kind]} if kind is not None else {}
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


def _schemas_of(*kinds: type[Any]) -> dict[str, Schema]:
    """Return the schemas of types and of those inside them by name, with the notes of fields."""
    template = "#/components/schemas/{name}"
    _, schemas = msgspec.json.schema_components(kinds, ref_template=template)
    for kind in _with_inner(*kinds):
        schema = schemas[kind.__name__]
        schema["description"] = inspect.cleandoc(kind.__doc__ or "")
        for name, note in _notes(kind).items():
            schema["properties"].get(name, {})["description"] = note
    return schemas


def _with_inner(*kinds: type[Any]) -> set[type[Any]]:
    """Return types and those of their fields, where these have fields too."""
    found: set[type[Any]] = set()
    left: list[Any] = list(kinds)
    while left:
        kind = left.pop()
        left += get_args(kind)
        if (is_dataclass(kind) or hasattr(kind, "__struct_fields__")) and kind not in found:
            found.add(kind)
            left += get_type_hints(kind).values()
    return found


def _notes(kind: type[Any]) -> dict[str, str]:
    """Return the text below each field of a class: Python itself does not keep it."""
    body = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(body, ast.ClassDef)
    notes = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            note = ast.literal_eval(text.value)
            notes[ast.unparse(field.target)] = inspect.cleandoc(note).replace("`", "")
    return notes
