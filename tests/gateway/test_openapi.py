"""The OpenAPI document: valid, and complete by the code that it describes."""

import ast
import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import hdrs
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from conch.gateway import GatewayConfig, openapi, voicing
from conch.gateway.access import KEY_PROTOCOL, OPEN_PATHS
from conch.gateway.app import make_app
from conch.gateway.deepgram.parameters import FileParameters, LiveParameters
from conch.gateway.deepgram.speak import SpeakParameters
from conch.gateway.doors import SPEAK
from conch.gateway.errors import ApiError, api_error, deepgrams_body
from conch.gateway.file_answer import CONTENT_TYPES, Deltas, body
from conch.gateway.file_request import DIARIZATION, FORMATS, GRANULARITIES, KNOWN, parse
from conch.gateway.format import read
from conch.gateway.listen import MAX_SENT_BEFORE_S, OWN
from conch.gateway.live_audio import ENCODINGS
from conch.gateway.models import DEFAULT_MODEL, PATHS, model_object
from conch.gateway.openapi import described
from conch.gateway.option_fields import taken_options
from conch.gateway.state import Gateway
from conch.wire.errors import (
    AudioError,
    ComponentError,
    DeadlineError,
    InternalError,
    InvalidRequestError,
    MissingModelError,
    OptionError,
    OverloadedError,
    RequestCancelledError,
    ServerError,
    SessionError,
)
from conch.wire.needs import components_for
from conch.wire.option_values import default_of
from conch.wire.options import RecognitionOptions
from conch.wire.parts import with_turns
from conch.wire.result import Hypothesis, Segment, Stage, Transcript, Turn, Word

OPTIONS = taken_options()
SOURCES = Path(openapi.__file__).parent
DOCUMENT = openapi.make_document()
TRANSCRIPTIONS = DOCUMENT["paths"]["/v1/audio/transcriptions"]["post"]
SCHEMAS = DOCUMENT["components"]["schemas"]
FORM = SCHEMAS["TranscriptionForm"]
ERROR = DOCUMENT["components"]["responses"]["Error"]
EXAMPLE_URL = "http://127.0.0.1:9000"
PAGES = {"/", "/docs", "/favicon.ico", "/page/{name}"}
"""What people look at; the document tells of the API."""


def parameters(path: str) -> dict[str, dict[str, Any]]:
    """Return the schemas of a query's fields."""
    asked = DOCUMENT["paths"][path]["get"]["parameters"]
    return {item["name"]: item["schema"] for item in asked}


def checker(schema: dict[str, Any]) -> Draft202012Validator:
    """Return what checks JSON by a schema of the document, and allows no other keys."""
    strict = json.loads(json.dumps(DOCUMENT["components"]["schemas"]))
    for item in strict.values():
        item["additionalProperties"] = False
    return Draft202012Validator({**schema, "components": {"schemas": strict}})


def named(name: str) -> Draft202012Validator:
    return checker({"$ref": f"#/components/schemas/{name}"})


def transcript() -> Transcript:
    words = (Word("Tiger,", 0.1, 0.5, 0.9), Word("tiger.", 0.6, 1.0, 0.8))
    best = Hypothesis("Tiger, tiger.", -1.5, -1.5)
    segment = Segment(0.1, 1.0, (best,), words)
    stages = {"attention_decoder": Stage(1, 20.5), "total": Stage(1, 25.0)}
    return Transcript((best,), (segment,), 1.2, ("vad", "attention_decoder"), stages)


def test_it_is_a_valid_document() -> None:
    validate(DOCUMENT)
    assert DOCUMENT["openapi"].startswith("3.1.")


async def routes() -> set[tuple[str, str]]:
    """Return method and address of every route of the application."""
    app = make_app(Gateway(GatewayConfig(servers=("grpc://127.0.0.1:1",))))
    return {
        (route.method.lower(), route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None and route.method != hdrs.METH_HEAD
    }


def test_it_has_every_route_and_no_other() -> None:
    there = asyncio.run(routes())
    documented = {
        (method, path) for path, methods in DOCUMENT["paths"].items() for method in methods
    }
    assert documented == {(method, path) for method, path in there if path not in PAGES}
    assert {path for _, path in there} > PAGES
    assert len(documented) > 12


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_a_field_of_the_form_with_its_default_and_range(name: str) -> None:
    item, schema = OPTIONS[name], FORM["properties"][name]
    if item.default is None:
        assert "default" not in schema
        assert default_of(item) in schema["description"]
    else:
        assert schema["default"] == item.default
        Draft202012Validator(schema).validate(item.default)
    assert item.metadata["help"][1:] in schema["description"]
    for end, beyond in ((item.metadata["low"], -1), (item.metadata["high"], 1)):
        if end is not None:
            Draft202012Validator(schema).validate(end)
            assert not Draft202012Validator(schema).is_valid(end + beyond)


def test_live_audio_takes_every_option_but_those_of_recordings() -> None:
    schemas = parameters("/v1/conch/listen")
    of_recordings = {"channels", "coverage", "speaker_embeddings"}
    assert OPTIONS.keys() - schemas.keys() == of_recordings
    assert schemas.keys() - OPTIONS.keys() == set(OWN)
    assert schemas["encoding"]["enum"] == list(ENCODINGS)
    assert schemas["told_s"]["maximum"] == MAX_SENT_BEFORE_S
    assert schemas["model"]["default"] == FORM["properties"]["model"]["default"] == DEFAULT_MODEL


def test_a_text_in_pieces_takes_every_option_and_format() -> None:
    schemas = parameters(SPEAK.address)
    assert set(schemas) == {"model", "format", *voicing.OPTIONS}
    assert schemas["format"]["enum"] == list(voicing.FORMATS)


@pytest.mark.parametrize(
    ("path", "method", "kind"),
    [
        ("/v1/listen", "get", LiveParameters),
        ("/v1/listen", "post", FileParameters),
        ("/v1/speak", "get", SpeakParameters),
        ("/v1/speak", "post", SpeakParameters),
    ],
)
def test_deepgrams_addresses_have_its_parameters(path: str, method: str, kind: type[Any]) -> None:
    operation = DOCUMENT["paths"][path][method]
    assert [item["name"] for item in operation["parameters"]] == [
        item.name for item in fields(kind)
    ]


def test_deepgrams_errors_are_those_of_their_schema() -> None:
    named("DeepgramError").validate(deepgrams_body(ApiError(400, "wrong"), "req_1"))


def test_the_models_and_the_subprotocol_of_keys_are_told() -> None:
    for name in PATHS:
        if name.startswith("conch"):
            assert name in FORM["properties"]["model"]["description"]
    for path in ("/v1/conch/listen", "/v1/conch/speak", "/v1/realtime"):
        assert f"`{KEY_PROTOCOL}KEY`" in DOCUMENT["paths"][path]["get"]["description"]


def test_a_translation_has_the_fields_of_a_transcription_but_its_task() -> None:
    fields = DOCUMENT["components"]["schemas"]["TranslationForm"]["properties"]
    assert set(FORM["properties"]) - set(fields) == {"task"}


def test_the_form_has_openais_fields() -> None:
    fields = {name.removesuffix("[]") for name in FORM["properties"]}
    assert fields >= KNOWN


def test_the_answers_with_a_text_tell_their_headers() -> None:
    for path in ("/v1/audio/transcriptions", "/v1/audio/translations"):
        headers = DOCUMENT["paths"][path]["post"]["responses"]["200"]["headers"]
        assert set(headers) == {"x-request-id", "x-conch-ignored", "x-conch-warnings"}


def test_a_type_without_a_docstring_does_not_show_its_constructor() -> None:
    shown = {name: item.get("description", "") for name, item in SCHEMAS.items()}
    wrong = [name for name, text in shown.items() if text.startswith(f"{name}(")]
    assert not wrong, f"these types need a docstring: {wrong}"


def test_every_format_has_its_content_type() -> None:
    answers = TRANSCRIPTIONS["responses"]["200"]["content"]
    assert set(CONTENT_TYPES.values()) | {"text/event-stream"} == set(answers)
    assert FORM["properties"]["response_format"]["enum"] == list(FORMATS)
    granularities = FORM["properties"]["timestamp_granularities[]"]["items"]["enum"]
    assert granularities == list(GRANULARITIES)


DIARIZED = parse({"response_format": ("diarized_json",)}, {})


def test_the_bodies_are_those_of_their_schemas() -> None:
    both = ("word", "segment")
    verbose = parse({"response_format": ("verbose_json",), "timestamp_granularities[]": both}, {})
    plain = parse({"include[]": ("logprobs",)}, {})
    warned = replace(transcript(), warnings=("the file breaks off after 1.0 s",))
    for said in (transcript(), warned):
        named("VerboseTranscription").validate(json.loads(body(said, verbose)))
        named("Transcription").validate(json.loads(body(said, plain)))
    named("TextDone").validate(Deltas(plain).of_whole(warned))
    named("DiarizedTranscription").validate(json.loads(body(transcript(), DIARIZED)))
    turns = with_turns(transcript(), [Turn("Ann", 0.5, 2.0)])
    who = json.loads(body(turns, parse({}, {}, {"decoder": "none"}, DIARIZATION)))
    named("Diarization").validate(who)
    assert who["segments"] == [{"start": 0.5, "end": 2.0, "speaker": "Ann"}]
    whole = parse({"response_format": ("conch",)}, {})
    named("Transcript").validate(json.loads(body(transcript(), whole)))


def test_the_events_are_those_of_their_schemas() -> None:
    deltas = Deltas(parse({"include[]": ("logprobs",), "stream": ("true",)}, {}))
    (delta,) = deltas.of_part(transcript())
    named("TextDelta").validate(delta)
    named("TextDone").validate(deltas.of_whole(transcript()))
    (turn,) = Deltas(DIARIZED).of_turns(transcript())
    named("TextSegment").validate(turn)
    assert list(deltas.of_turns(transcript())) == []
    deltas = Deltas(parse({"response_format": ("conch",), "stream": ("true",)}, {}))
    (part,) = deltas.of_part(transcript())
    whole = deltas.of_whole(transcript())
    for event, name in ((part, "TranscriptPart"), (whole, "TranscriptDone")):
        plain = {**event, "transcript": json.loads(event["transcript"].to_json())}
        named(name).validate(plain)


def test_a_wrong_body_is_found() -> None:
    assert not named("Transcription").is_valid({"text": "a"})
    assert not named("Error").is_valid({"error": {"message": "no type"}})


def as_json(item: Any) -> Any:
    return json.loads(msgspec.json.encode(item))


def test_models_and_options_are_those_of_their_schemas() -> None:
    named("Model").validate(model_object("conch"))
    option, component = named("Option"), named("Component")
    for item in OPTIONS.values():
        option.validate(as_json(described(item)))
    for needed in components_for(RecognitionOptions()):
        component.validate(as_json(needed))


def test_a_request_for_a_format_is_that_of_its_schema() -> None:
    said = json.loads(transcript().to_json())
    request = {"transcript": said, "format": "srt"}
    # It ignores further keys of a transcript, and no others.
    schema = {"$ref": "#/components/schemas/FormatRequest", "components": DOCUMENT["components"]}
    validator = Draft202012Validator(schema)
    validator.validate(request)
    read(json.dumps(request).encode())
    wrong: tuple[dict[str, Any], ...] = ({"format": "docx"}, {"transcript": {}}, {"wrong": 1})
    for change in wrong:
        assert not validator.is_valid({**request, **change})
        with pytest.raises(ApiError):
            read(json.dumps({**request, **change}).encode())


def documented_errors(table: str) -> dict[int, tuple[str, tuple[str, ...]]]:
    """Return type and codes of each status in a table of Markdown."""
    rows = re.findall(r"^\| (\d{3}) \| `(\w+)` \| (.+?) \|", table, re.M)
    return {
        int(status): (kind, tuple(re.findall(r"`(\w+)`", codes))) for status, kind, codes in rows
    }


KINDS = (
    *(OptionError, AudioError, SessionError, InvalidRequestError, DeadlineError),
    *(RequestCancelledError, OverloadedError, MissingModelError, ComponentError, InternalError),
    ServerError,
)


MADE_BY = {
    "invalid": (400, "invalid_value"),
    "overloaded": (503, "overloaded"),
    "_wrong": (400, "invalid_form"),
    "_unauthorised": (401, ""),
}
"""Status and usual code of the errors that functions make."""


def errors_of_the_code() -> Iterator[tuple[int, str]]:
    """Yield status and code of every error that the gateway answers with.

    Those of an open WebSocket are events, which the document leaves to the guide.
    """
    for path in SOURCES.glob("*.py"):
        if path.stem.startswith(("listen", "live", "socket_session", "speak", "voicing")):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            codes = [item.value for item in node.keywords if item.arg == "code"]
            code = codes[0].value if codes and isinstance(codes[0], ast.Constant) else None
            if node.func.id == "ApiError" and isinstance(node.args[0], ast.Constant) and code:
                yield ast.literal_eval(node.args[0]), str(code)
            elif node.func.id in MADE_BY:
                status, usual = MADE_BY[node.func.id]
                yield status, str(code or usual)
    for kind in KINDS:
        error = api_error(kind("message"))
        assert error.code is not None
        yield error.status, error.code


def test_every_error_of_the_code_is_there() -> None:
    rows = documented_errors(ERROR["description"])
    documented = {(status, code) for status, (_, codes) in rows.items() for code in codes}
    result = set(errors_of_the_code())
    assert len(result) > 20
    assert result <= documented
    for status, (kind, _) in rows.items():
        assert kind == ApiError(status, "").type


def test_an_error_tells_its_headers() -> None:
    headers = {"Retry-After", "x-should-retry", "WWW-Authenticate", "Upgrade", "Allow"}
    assert set(ERROR["headers"]) == {"x-request-id", *headers}
    assert ERROR["content"]["application/json"]["schema"]["$ref"].endswith("/Error")
    for kind in KINDS:
        error = api_error(kind("message"))
        for name in error.headers:
            assert str(error.status) in ERROR["headers"][name]["description"]


def test_only_what_is_open_needs_no_key() -> None:
    free = {
        path
        for path, methods in DOCUMENT["paths"].items()
        for operation in methods.values()
        if operation.get("security") == []
    }
    assert free == set(OPEN_PATHS) - PAGES


def test_every_curl_line_asks_the_address_that_it_stands_beside() -> None:
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            pattern = re.sub(r"\{\w+\}", r"[\\w.]+", path)
            for sample in operation.get("x-codeSamples", []):
                url = sample["source"].split()[-1].strip("'").partition("?")[0]
                assert re.fullmatch(re.escape(EXAMPLE_URL) + pattern, url), url


def test_no_key_of_a_reference_dangles() -> None:
    text = json.dumps(DOCUMENT)
    for kind, name in re.findall(r'"#/components/(\w+)/([^"]+)"', text):
        assert name in DOCUMENT["components"][kind]
