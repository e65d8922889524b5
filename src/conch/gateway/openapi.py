"""`GET /openapi.json`: the OpenAPI 3.1 document of the gateway.

It is made of the options, formats and models of the code, so that none of them can be missing.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from aiohttp import web

import conch
from conch.gateway.access import KEY_PROTOCOL, OPEN_PATHS, PAGE_FILES
from conch.gateway.errors import ApiError
from conch.gateway.file_answer import CONTENT_TYPES
from conch.gateway.models import DEFAULT_MODEL, PATHS
from conch.gateway.options import takes_live
from conch.gateway.schemas import (
    Schema,
    named_schemas,
    of_option,
    ref,
    transcription_form,
    translation_form,
)
from conch.wire.options import all_options
from conch.wire.result import strict_json

EXAMPLE_URL = "http://127.0.0.1:9000"
"""Address in the examples; the page that shows the document puts its own there."""


class ErrorStatus(NamedTuple):
    """Errors with the same status."""

    meaning: str
    codes: tuple[str, ...]
    headers: tuple[str, ...] = ()
    """Headers of the answer, beside x-request-id."""


ERRORS: Mapping[int, ErrorStatus] = {
    400: ErrorStatus(
        "The request is wrong; param names the field.",
        (
            *("invalid_value", "invalid_audio", "invalid_form", "missing_file", "not_supported"),
            *("model_not_loaded", "session_expired", "invalid_request", "unknown_subprotocol"),
        ),
    ),
    401: ErrorStatus(
        "A key is needed, or the key is not one of this server's.",
        ("missing_api_key", "invalid_api_key"),
        ("WWW-Authenticate",),
    ),
    403: ErrorStatus(
        "The web page or the name of the host is not allowed.",
        ("host_not_allowed", "origin_not_allowed"),
    ),
    404: ErrorStatus(
        "No such model or address; the message names others.", ("model_not_found", "unknown_url")
    ),
    405: ErrorStatus("Another method.", ("method_not_allowed",), ("Allow",)),
    408: ErrorStatus("The upload stood still for a minute.", ("upload_stalled",)),
    413: ErrorStatus("The file is too large or too long.", ("file_too_large", "audio_too_long")),
    415: ErrorStatus("The body is no multipart/form-data.", ("unsupported_media_type",)),
    422: ErrorStatus(
        "Servers were lost with this file, one after the other. It is refused for an hour.",
        ("file_ends_server",),
        ("x-should-retry",),
    ),
    426: ErrorStatus("The address is a WebSocket.", ("upgrade_required",), ("Upgrade",)),
    429: ErrorStatus("The key has used up a limit.", ("rate_limit_exceeded",), ("Retry-After",)),
    499: ErrorStatus("The request was cancelled.", ("cancelled",)),
    500: ErrorStatus(
        "A defect; the server's log has the cause. The same request would fail again.",
        ("component_failed", "server_error"),
        ("x-should-retry",),
    ),
    503: ErrorStatus(
        "The gateway or the server is full, stops, or is not reached. Try again later.",
        ("overloaded", "no_server", "server_lost"),
        ("Retry-After",),
    ),
    504: ErrorStatus(
        "The time budget deadline_ms is spent.", ("deadline_exceeded",), ("x-should-retry",)
    ),
}
"""What can go wrong, by status."""

FOR_FILES = (400, 401, 403, 404, 408, 413, 415, 422, 429, 499, 500, 503, 504)
FOR_SECRETS = (400, 401, 403, 404, 500)
FOR_SESSIONS = (400, 401, 403, 404, 426, 429, 500, 503)
"""Statuses of the answer in place of the upgrade."""
FOR_OTHERS = (401, 403, 500)
FOR_FREE = (403, 500)
"""Statuses where no key is needed."""

_HEADERS: Mapping[str, Schema] = {
    "x-request-id": {
        "description": "Id of the request: that of its header x-request-id, or a new one. The logs "
        "of the gateway and of Triton have it too.",
        "schema": {"type": "string"},
    },
    "x-conch-ignored": {
        "description": "Names of the fields that change nothing.",
        "schema": {"type": "string"},
    },
    "x-conch-warnings": {
        "description": "What may be wrong with the file or the request: a JSON list of sentences, "
        "as many as fit. A streamed answer has those about the file in its last event.",
        "schema": {"type": "string"},
    },
    "Retry-After": {
        "description": "Seconds until another attempt.",
        "schema": {"type": "integer"},
    },
    "x-should-retry": {
        "description": "false: the same request would fail again.",
        "schema": {"type": "string", "const": "false"},
    },
    "WWW-Authenticate": {
        "description": "How to send a key.",
        "schema": {"type": "string", "const": "Bearer"},
    },
    "Upgrade": {
        "description": "The protocol to send.",
        "schema": {"type": "string", "const": "websocket"},
    },
    "Allow": {"description": "Methods of this address.", "schema": {"type": "string"}},
}

_OF_TEXT = ("x-request-id", "x-conch-ignored", "x-conch-warnings")
"""Headers of an answer with the text of a file."""

_INFO = """\
Speech recognition in front of NVIDIA Triton: OpenAI's audio API, live audio over WebSockets, and \
Conch's own options as further fields.

Fields that nobody knows are ignored, and named in warnings, with the field that may be meant. \
The header x-conch-ignored names all fields that change nothing. An option with a wrong value is \
an error that names the option, its range and what was sent.

Keys are needed if the gateway has any: send `Authorization: Bearer KEY` or `X-API-Key: KEY`. The \
guide, docs/guide/gateway.md, has examples for OpenAI's clients.
"""

_TAGS: Mapping[str, str] = {
    "Recordings": "A file in, its text out.",
    "Live audio": "WebSockets, for audio as it is spoken.",
    "Models and options": "What a request can ask for.",
    "Operation": "For whoever runs the gateway.",
    "Pages": "For people.",
}

_TRANSCRIBE = """\
The text of a recording. The fields are OpenAI's, and every option of Conch.

With stream=true the answer is a stream of server-sent events: lines `data: JSON`, each followed \
by an empty line. Lines that begin with a colon keep the connection alive. A segment comes as \
`transcript.text.delta` when it is final; `transcript.text.done` is the last event. With \
response_format=conch the events are `transcript.part` and `transcript.done`, each with a \
transcript. An error in the middle of the stream is an event with the key error.
"""

_LISTEN = """\
Live audio, the plain way. Send audio in binary messages, and read JSON.

The client also sends text messages: `{"type":"finalize"}` ends the utterance now, \
`{"type":"close"}` asks for the last text and the end, `{"type":"keepalive"}` does nothing.

The server sends `ready` first, then `text` whenever the text of the open utterance has changed: \
firm words stay, tentative and newest ones may change. `segment` is an utterance that has ended; \
with final=false its second pass is to come, and the same index comes again. `finalized` answers \
finalize, `end` is the last message, `error` tells what went wrong.

Browsers cannot send headers: they offer the subprotocols `conch` and `KEY_PROTOCOLKEY`. The guide \
has a page on this WebSocket.
"""

_REALTIME = """\
OpenAI's realtime API, for transcription. Events are JSON in text messages, both ways.

The server sends `session.created` first. The client configures the session by `session.update`, \
sends base64 audio by `input_audio_buffer.append`, and ends turns by `input_audio_buffer.commit`, \
or leaves them to the server's turn detection. The text of a turn comes as \
`conversation.item.input_audio_transcription.delta`, of firm words only, and is replaced by \
`….completed`. `error` keeps the session open.

Browsers offer the subprotocols `realtime` and `KEY_PROTOCOLKEY`, with a key or a client secret. \
The guide has a page on this WebSocket.
"""


async def document(request: web.Request) -> web.Response:
    """Answer with the document."""
    return web.Response(text=_document_as_text(), content_type="application/json")


@cache
def _document_as_text() -> str:
    return strict_json(make_document())


def make_document() -> dict[str, Any]:
    """Return the document."""
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Conch gateway",
            "version": conch.__version__,
            "description": _INFO,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": {
            **_recordings(),
            **_live_audio(),
            **_models_and_options(),
            **_operation(),
            **_pages(),
        },
        "components": {
            "schemas": named_schemas(),
            "responses": {str(status): _error(status) for status in ERRORS},
            "headers": dict(_HEADERS),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Authorization: Bearer KEY. Keys are made by conch gateway "
                    "keys add NAME.",
                },
                "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
        # The empty one: a gateway without keys wants none.
        "security": [{"bearer": []}, {"header": []}, {}],
    }


def _recordings() -> dict[str, Any]:
    path = "/v1/audio/transcriptions"
    by_type: dict[str, list[Schema]] = {}
    answers = {
        "json": ref("Transcription"),
        "verbose_json": ref("VerboseTranscription"),
        "conch": ref("Transcript"),
    }
    for format, kind in CONTENT_TYPES.items():
        schema = answers.get(format, {"type": "string", "description": f"Format {format}."})
        by_type.setdefault(kind, []).append(schema)
    by_type["text/event-stream"] = [
        {
            "type": "string",
            "description": "With stream=true. The data of each event:",
            "contentMediaType": "application/json",
            "contentSchema": {
                "anyOf": [
                    *(ref("TextDelta"), ref("TextDone")),
                    *(ref("TranscriptPart"), ref("TranscriptDone"), ref("Error")),
                ]
            },
        }
    ]
    transcribe = _operation_of(
        "Recordings",
        path,
        "Transcribe a recording",
        _TRANSCRIBE,
        {"200": _answer("The text.", by_type, _OF_TEXT)},
        FOR_FILES,
        body=("multipart/form-data", transcription_form()),
        curl=(
            f"-F file=@talk.mp3 {EXAMPLE_URL}{path}",
            f"-F file=@talk.mp3 -F response_format=verbose_json -F nbest=3 {EXAMPLE_URL}{path}",
            f"-N -F file=@talk.mp3 -F stream=true {EXAMPLE_URL}{path}",
        ),
    )
    path_of_translations = "/v1/audio/translations"
    translate = _operation_of(
        "Recordings",
        path_of_translations,
        "Translate a recording into English",
        "As a transcription with task=translate. A model that knows English only is answered with "
        "400, param model.",
        {"200": _answer("The text.", by_type, _OF_TEXT)},
        FOR_FILES,
        body=("multipart/form-data", translation_form()),
        curl=(f"-F file=@talk.mp3 {EXAMPLE_URL}{path_of_translations}",),
    )
    return {path: {"post": transcribe}, path_of_translations: {"post": translate}}


def _live_audio() -> dict[str, Any]:
    model = _query(
        "model",
        {"type": "string", "default": DEFAULT_MODEL, "examples": list(PATHS)},
        "The path; GET /v1/models lists what is loaded.",
    )
    listen = [
        _query(
            "encoding",
            {
                "type": "string",
                "enum": ["auto", "pcm16", "float32", "mulaw", "alaw", "container"],
                "default": "auto",
            },
            "What the binary messages hold. auto tells a container (WebM, Ogg, WAV) by its first "
            "bytes, and takes everything else for pcm16.",
        ),
        _query(
            "sample_rate",
            {"type": "integer", "minimum": 4000, "maximum": 192_000, "default": 16_000},
            "Hz of raw samples; 8000 by default with mulaw and alaw.",
        ),
        model,
        _query(
            "include",
            {"type": "string", "enum": ["stats", "resume", "stats,resume"]},
            "stats: messages with the components called and their times. resume: messages that "
            "tell which audio to keep, in case the session is lost.",
        ),
        _query(
            "told_s",
            {"type": "number", "minimum": 0, "maximum": 60, "default": 0},
            "Seconds at the beginning whose words a session that was lost has told already; they "
            "are left out.",
        ),
        _query(
            "answers",
            {"type": "string", "enum": ["text", "all"], "default": "text"},
            "all: one message with the transcript for each binary message, of raw samples.",
        ),
        *(
            _query_of_option(item.name, of_option(item))
            for item in all_options().values()
            if takes_live(item)
        ),
    ]
    realtime = [
        _query("intent", {"type": "string", "const": "transcription"}, "What the session is for."),
        model,
    ]
    upgraded = {"101": _answer("The WebSocket is open.", {})}
    secrets = {
        "type": "object",
        "description": "What the session shall be; unknown keys are ignored.",
        "properties": {
            "session": {"type": "object", "description": "As in session.update."},
            "expires_after": {
                "type": "object",
                "description": "How long the secret opens sessions.",
                "properties": {
                    "anchor": {"type": "string", "const": "created_at"},
                    "seconds": {"type": "integer"},
                },
            },
        },
    }
    tag, as_json = "Live audio", "-H 'Content-Type: application/json' -d '{}'"
    path = "/v1/realtime/client_secrets"
    beta = "/v1/realtime/transcription_sessions"
    return {
        "/v1/listen": {
            "get": _operation_of(
                tag,
                "/v1/listen",
                "Recognise live audio (WebSocket)",
                _LISTEN.replace("KEY_PROTOCOL", KEY_PROTOCOL),
                upgraded,
                FOR_SESSIONS,
                parameters=listen,
            )
        },
        "/v1/realtime": {
            "get": _operation_of(
                tag,
                "/v1/realtime",
                "Open a realtime transcription session (WebSocket)",
                _REALTIME.replace("KEY_PROTOCOL", KEY_PROTOCOL),
                upgraded,
                FOR_SESSIONS,
                parameters=realtime,
            )
        },
        path: {
            "post": _operation_of(
                tag,
                path,
                "Make a secret for a browser",
                "A short-lived secret that opens realtime sessions in place of a key.",
                {"200": _json("The secret.", ref("ClientSecret"))},
                FOR_SECRETS,
                body=("application/json", secrets),
                curl=(f"{as_json} {EXAMPLE_URL}{path}",),
            )
        },
        beta: {
            "post": _operation_of(
                tag,
                beta,
                "Make a secret for a browser, as the beta of the API did",
                "The same for clients of the beta, which find the secret under client_secret.",
                {
                    "200": _json(
                        "The session and its secret.",
                        {
                            "type": "object",
                            "required": ["client_secret"],
                            "properties": {"client_secret": ref("ClientSecret")},
                        },
                    )
                },
                FOR_SECRETS,
                body=("application/json", {"type": "object"}),
                curl=(f"{as_json} {EXAMPLE_URL}{beta}",),
            )
        },
    }


def _models_and_options() -> dict[str, Any]:
    tag = "Models and options"
    model = {
        "name": "model",
        "in": "path",
        "required": True,
        "schema": {"type": "string"},
        "example": DEFAULT_MODEL,
        "description": "Name of a model.",
    }
    return {
        "/v1/models": {
            "get": _operation_of(
                tag,
                "/v1/models",
                "List the models",
                "The models whose components a server has loaded. Each is a path through Conch.",
                {"200": _json("The models.", ref("ModelList"))},
                FOR_OTHERS,
            )
        },
        "/v1/models/{model}": {
            "get": _operation_of(
                tag,
                "/v1/models/{model}",
                "Describe a model",
                "One model.",
                {"200": _json("The model.", ref("Model"))},
                (*FOR_OTHERS, 404),
                parameters=[model],
                curl=(f"{EXAMPLE_URL}/v1/models/{DEFAULT_MODEL}",),
            )
        },
        "/v1/options": {
            "get": _operation_of(
                tag,
                "/v1/options",
                "List the options",
                "Every option of a request: its type, range, default and meaning.",
                {"200": _json("The options.", ref("OptionList"))},
                FOR_OTHERS,
            )
        },
    }


def _operation() -> dict[str, Any]:
    tag, status = "Operation", ref("Status")
    return {
        "/health/live": {
            "get": _operation_of(
                tag,
                "/health/live",
                "Tell whether the gateway runs",
                "200 as long as it runs.",
                {"200": _json("It runs.", status)},
            )
        },
        "/health/ready": {
            "get": _operation_of(
                tag,
                "/health/ready",
                "Tell whether new requests are taken",
                "503 while no server is ready, while components of the server do not answer, and "
                "once the gateway was asked to stop.",
                {"200": _json("They are.", status), "503": _json("They are not.", status)},
            )
        },
        "/metrics": {
            "get": _operation_of(
                tag,
                "/metrics",
                "Read the metrics",
                "In Prometheus' text format. The guide lists them.",
                {"200": _answer("The metrics.", {"text/plain": [{"type": "string"}]})},
                FOR_OTHERS,
            )
        },
        "/openapi.json": {
            "get": _operation_of(
                tag,
                "/openapi.json",
                "Read this document",
                "The document that /docs shows.",
                {"200": _json("The document.", {"type": "object"})},
            )
        },
    }


def _pages() -> dict[str, Any]:
    html = {"text/html": [{"type": "string"}]}
    file = {
        "name": "name",
        "in": "path",
        "required": True,
        "schema": {"type": "string"},
        "example": "docs.css",
        "description": "Name of the file.",
    }
    picture = {"image/svg+xml": [{"type": "string"}]}
    files = {kind: [{"type": "string"}] for kind in ("text/html", "text/css", "text/javascript")}
    tag = "Pages"
    return {
        "/": {
            "get": _operation_of(
                tag,
                "/",
                "Open the web page",
                "Live text from the microphone, files, and the path that each request took.",
                {"200": _answer("The page.", html)},
            )
        },
        "/docs": {
            "get": _operation_of(
                tag,
                "/docs",
                "Open the reference",
                "This document, readable.",
                {"200": _answer("The page.", html)},
            )
        },
        "/favicon.ico": {
            "get": _operation_of(
                tag,
                "/favicon.ico",
                "Get the icon",
                "For browsers.",
                {"200": _answer("The icon.", picture)},
            )
        },
        f"{PAGE_FILES}{{name}}": {
            "get": _operation_of(
                tag,
                f"{PAGE_FILES}{{name}}",
                "Get a file of the page",
                "Its scripts, styles and pictures.",
                {"200": _answer("The file.", {**files, **picture})},
                (*FOR_FREE, 404),
                parameters=[file],
                curl=(f"{EXAMPLE_URL}{PAGE_FILES}docs.css",),
            )
        },
    }


def _operation_of(
    tag: str,
    path: str,
    summary: str,
    description: str,
    answers: Mapping[str, Schema],
    errors: Sequence[int] = FOR_FREE,
    *,
    parameters: Sequence[Schema] = (),
    body: tuple[str, Schema] | None = None,
    curl: Sequence[str] = (),
) -> Schema:
    """Return the description of one method of an address."""
    operation: Schema = {
        "tags": [tag],
        "operationId": summary.split(" (")[0].replace(",", "").replace(" ", "_").lower(),
        "summary": summary,
        "description": description,
    }
    if parameters:
        operation["parameters"] = list(parameters)
    if body:
        kind, schema = body
        operation["requestBody"] = {"required": True, "content": {kind: {"schema": schema}}}
    operation["responses"] = {
        **answers,
        **{str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(errors)},
    }
    if path in OPEN_PATHS or path.startswith(PAGE_FILES):
        operation["security"] = []
    if "101" not in answers:
        operation["x-codeSamples"] = [
            {"lang": "Shell", "label": "curl", "source": f"curl {line}"}
            for line in curl or (f"{EXAMPLE_URL}{path}",)
        ]
    return operation


def _query(name: str, schema: Schema, description: str) -> Schema:
    return {"name": name, "in": "query", "schema": schema, "description": description}


def _query_of_option(name: str, schema: Schema) -> Schema:
    plain = {key: value for key, value in schema.items() if key != "description"}
    return {**_query(name, plain, schema["description"]), "x-conch-option": True}


def _answer(
    description: str,
    content: Mapping[str, Sequence[Schema]],
    headers: Sequence[str] = ("x-request-id",),
) -> Schema:
    answer: Schema = {
        "description": description,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
    }
    if content:
        answer["content"] = {
            kind: {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}}
            for kind, schemas in content.items()
        }
    return answer


def _json(description: str, schema: Schema) -> Schema:
    return _answer(description, {"application/json": [schema]})


def _error(status: int) -> Schema:
    error = ERRORS[status]
    kind = ApiError(status, "").type
    codes = ", ".join(f"`{code}`" for code in error.codes)
    return _answer(
        f"{error.meaning} Type `{kind}`; code {codes}.",
        {"application/json": [ref("Error")]},
        ("x-request-id", *error.headers),
    )
