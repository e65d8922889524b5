"""JSON schemas (draft 2020-12) of what the gateway takes and answers with.

Pure. Those of options and of transcripts are made from the dataclasses; those of OpenAI's formats
follow openai-openapi f85dbe2 and the types of openai-python v3.3.1.
"""

import ast
import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

from conch.gateway.file_request import FORMATS, GRANULARITIES
from conch.gateway.models import DEFAULT_MODEL, PATHS
from conch.wire.options import RecognitionOptions, kind_of, words_of
from conch.wire.result import RARE, Transcript

Schema: TypeAlias = dict[str, Any]

_KINDS: Mapping[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def ref(name: str) -> Schema:
    """Return a reference to a named schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def of_option(item: "Field[Any]") -> Schema:
    """Return the schema of an option: type, range, default and meaning."""
    kind, words = kind_of(item), words_of(item)
    data = item.metadata
    notes = [data["help"]]
    if data["otherwise"]:
        notes.append(f"by default {data['otherwise']}")
    if data["decoders"]:
        notes.append(f"with decoder {' or '.join(data['decoders'])}")
    schema: Schema = {}
    if kind is not None:
        schema["type"] = _KINDS[kind]
    if data["low"] is not None:
        schema |= {"minimum": data["low"], "maximum": data["high"]}
    if words:
        choice = {"type": "string", "enum": list(words)}
        schema = {"anyOf": [choice, schema]} if schema else choice
    if item.default is not None:
        schema["default"] = item.default
    return {**schema, "description": _sentence("; ".join(notes))}


def transcription_form() -> Schema:
    """Return the schema of the form of a file: OpenAI's fields, and all options."""
    own = {item.name: of_option(item) for item in fields(RecognitionOptions)}
    openai = {
        "file": {
            "type": "string",
            "format": "binary",
            "description": "The recording: wav, mp3, m4a, ogg, webm, flac, or the sound of a "
            "video. It is sent as it is.",
        },
        "model": {
            "type": "string",
            "default": DEFAULT_MODEL,
            "examples": list(PATHS),
            "description": f"The path: {', '.join(PATHS)}, or an alias of this gateway. "
            "OpenAI's names stand for the default. "
            "GET /v1/models lists what is loaded.",
        },
        "language": own.pop("language"),
        "prompt": own.pop("prompt"),
        "response_format": {
            "type": "string",
            "enum": list(FORMATS),
            "default": "json",
            "description": "The form of the answer. conch is the whole transcript: n-best, "
            "segments, words with confidences, components called and their times.",
        },
        "stream": {
            "type": "boolean",
            "default": False,
            "description": "Answer with server-sent events: each segment as it becomes final, "
            "then the whole text.",
        },
        "timestamp_granularities[]": {
            "type": "array",
            "items": {"type": "string", "enum": list(GRANULARITIES)},
            "default": ["segment"],
            "description": "Of verbose_json: which times to answer with.",
        },
        "include[]": {
            "type": "array",
            "items": {"type": "string", "enum": ["logprobs"]},
            "description": "Of json: the log probability of every word.",
        },
        "chunking_strategy": {
            "anyOf": [{"type": "string", "const": "auto"}, ref("ServerVad")],
            "default": "auto",
            "description": "How the recording is cut into segments.",
        },
        "temperature": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "default": 0,
            "description": "Changes nothing: the search has no temperature.",
        },
        "languages[]": {
            "type": "array",
            "items": {"type": "string"},
            "description": "One is the same as language; with several, Whisper chooses among them.",
        },
        "keywords[]": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Phrases to prefer: names and terms, as hotwords.",
        },
    }
    for item in own.values():
        item["x-conch-option"] = True
    return {"type": "object", "required": ["file"], "properties": {**openai, **own}}


def translation_form() -> Schema:
    """Return the schema of the form of a translation: that of a transcription without its task."""
    form = transcription_form()
    left = {name: item for name, item in form["properties"].items() if name != "task"}
    return {**form, "properties": left}


def named_schemas() -> dict[str, Schema]:
    """Return the schemas of all answers, by name."""
    return {**_openai_schemas(), **_service_schemas(), **dict(_of_dataclass(Transcript))}


def _openai_schemas() -> dict[str, Schema]:
    seconds = _number("Seconds from the start of the recording.")
    usage = {
        "type": {"type": "string", "const": "duration"},
        "seconds": _integer("Seconds of audio, rounded up."),
    }
    logprob = {
        "token": _string("A word; a space before it belongs to it."),
        "bytes": _list({"type": "integer"}, "The word in UTF-8."),
        "logprob": _number("Natural log probability."),
    }
    warnings = _list({"type": "string"}, "What may be wrong with the file or the request, if any.")
    logprobs = _list(ref("LogProb"), "Of every word, with include[]=logprobs.")
    segment = {
        "id": _integer("Number of the segment, from 0."),
        "seek": _integer("Start in frames of 10 ms."),
        "start": seconds,
        "end": seconds,
        "text": _string("The text, with a space before it."),
        "tokens": _list({"type": "integer"}, "Empty: the decoder does not tell its tokens."),
        "temperature": _number("0: the search has no temperature."),
        "avg_logprob": _number(
            "Log probability of the text, for each word, or character of a script without spaces. "
            "OpenAI's is for each token."
        ),
        "compression_ratio": _number("Bytes of the text over those that zlib makes of it."),
        "no_speech_prob": _number("0: a segment is where speech was found."),
    }
    verbose = {
        "task": {"type": "string", "enum": ["transcribe", "translate"]},
        "language": _string("English name of the text's language, or unknown."),
        "duration": _number("Seconds of audio."),
        "text": _string("The whole text."),
        "segments": _list(ref("VerboseSegment"), "With timestamp_granularities[]=segment."),
        "words": _list(ref("VerboseWord"), "With timestamp_granularities[]=word."),
        "usage": ref("Usage"),
        "warnings": warnings,
    }
    vad = {
        "type": {"type": "string", "const": "server_vad"},
        "threshold": _number("The option vad_threshold."),
        "prefix_padding_ms": _integer("The option vad_pad_ms."),
        "silence_duration_ms": _integer("The option vad_min_silence_ms."),
    }
    delta = {
        "type": {"type": "string", "const": "transcript.text.delta"},
        "delta": _string("Text of a segment; the deltas, joined, are the text of the last event."),
        "logprobs": logprobs,
    }
    done = {
        "type": {"type": "string", "const": "transcript.text.done"},
        "text": _string("The whole text."),
        "logprobs": logprobs,
        "warnings": warnings,
    }
    part = {
        "type": {"type": "string", "const": "transcript.part"},
        "transcript": ref("Transcript"),
    }
    whole = {**part, "type": {"type": "string", "const": "transcript.done"}}
    plain = {"text": _string("The text."), "usage": ref("Usage"), "logprobs": logprobs}
    plain["warnings"] = warnings
    word = {"word": _string("The word, with its punctuation."), "start": seconds, "end": seconds}
    return {
        "Transcription": _object(
            "The answer of format json.", plain, without=("logprobs", "warnings")
        ),
        "VerboseTranscription": _object(
            "The answer of format verbose_json.", verbose, without=("segments", "words", "warnings")
        ),
        "VerboseSegment": _object("A stretch of speech.", segment),
        "VerboseWord": _object("A word and its times.", word),
        "LogProb": _object("A word and its log probability.", logprob),
        "Usage": _object("What an answer cost.", usage),
        "ServerVad": _object("How speech is found.", vad, without=tuple(vad)[1:]),
        "TextDelta": _object("An event: a segment is final.", delta, without=("logprobs",)),
        "TextDone": _object("The last event.", done, without=("logprobs", "warnings")),
        "TranscriptPart": _object("An event of format conch: a segment is final.", part),
        "TranscriptDone": _object("The last event of format conch.", whole),
    }


def _service_schemas() -> dict[str, Schema]:
    option = {
        "name": _string("The field's name."),
        "kind": {
            "type": "string",
            "enum": ["bool", "int", "float", "str", "choice"],
            "description": "Type of its values, beside its choices.",
        },
        "default": {
            "type": ["boolean", "integer", "number", "string", "null"],
            "description": "null where other options decide.",
        },
        "default_in_words": _string("What other options make of the default."),
        "low": _or_null(_number("Smallest number.")),
        "high": _or_null(_number("Largest number.")),
        "choices": _or_null(_list({"type": "string"}, "Words that it takes.")),
        "help": _string("Its meaning."),
        "decoders": _list({"type": "string"}, "Decoders that take it; empty for all."),
        "live": {"type": "boolean", "description": "Whether live audio takes it."},
        "recordings": {"type": "boolean", "description": "Whether it changes anything for files."},
    }
    error = {
        "message": _string("What is wrong, and what would be right."),
        "type": _string("Kind of error, as OpenAI names it."),
        "param": _or_null(_string("Field of the request that is wrong.")),
        "code": _or_null(_string("Name of the error for programs.")),
    }
    model = {
        "id": _string("Name to send as model."),
        "object": {"type": "string", "const": "model"},
        "created": _integer("Seconds since 1970."),
        "owned_by": _string("conch."),
    }
    models = {
        "object": {"type": "string", "const": "list"},
        "data": _list(ref("Model"), "The models whose components are loaded."),
    }
    options = {
        "version": _string("Version of the gateway."),
        "options": _list(ref("Option"), "Every option of a request."),
    }
    secret = {
        "value": _string("The secret, in place of a key."),
        "expires_at": _integer("Until when a session may be opened with it: seconds since 1970."),
    }
    return {
        "Error": _object("Every error has this form.", {"error": ref("ErrorDetails")}),
        "ErrorDetails": _object("What went wrong.", error),
        "Model": _object("A model: a path through Conch.", model),
        "ModelList": _object("Models.", models),
        "Option": _object("An option of a request.", option),
        "OptionList": _object("Options.", options),
        "Status": _object("State of the gateway.", {"status": _string("The state, in words.")}),
        "ClientSecret": _object("A secret for a browser.", secret),
    }


def _of_dataclass(kind: type[Any]) -> Iterator[tuple[str, Schema]]:
    """Yield the schemas of a dataclass of the wire and of those inside it, by name."""
    hints, notes = get_type_hints(kind), _notes(kind)
    properties: dict[str, Schema] = {}
    if "nbest" in hints:
        properties["text"] = _string("The best candidate.")
    for item in fields(kind):
        schema = _of_type(hints[item.name])
        properties[item.name] = {**schema, "description": notes.get(item.name, "")}
    # A live one may lack `nbest`.
    without = ("nbest", *RARE) if kind is Transcript else ()
    yield kind.__name__, _object(inspect.cleandoc(kind.__doc__ or ""), properties, without=without)
    for hint in hints.values():
        for inner in _dataclasses_in(hint):
            yield from _of_dataclass(inner)


def _of_type(hint: Any) -> Schema:
    if hint is Any:
        return {}
    if hint in _KINDS:
        return {"type": _KINDS[hint]}
    if is_dataclass(hint) and isinstance(hint, type):
        return ref(hint.__name__)
    arguments = get_args(hint)
    if get_origin(hint) in (types.UnionType, typing.Union):
        return _or_null(_of_type(arguments[0]))
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _of_type(arguments[0])}
    return {"type": "object", "additionalProperties": _of_type(arguments[1])}


def _dataclasses_in(hint: Any) -> Iterator[type[Any]]:
    if is_dataclass(hint) and isinstance(hint, type):
        yield hint
    for argument in get_args(hint):
        yield from _dataclasses_in(argument)


def _notes(kind: type[Any]) -> Mapping[str, str]:
    """Return the text below each field of a dataclass: Python itself does not keep it."""
    body = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(body, ast.ClassDef)
    notes = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            note = ast.literal_eval(text.value)
            notes[ast.unparse(field.target)] = inspect.cleandoc(note).replace("`", "")
    return notes


def _object(
    description: str, properties: Mapping[str, Schema], *, without: tuple[str, ...] = ()
) -> Schema:
    return {
        "type": "object",
        "description": description,
        "required": [name for name in properties if name not in without],
        "properties": dict(properties),
    }


def _string(description: str) -> Schema:
    return {"type": "string", "description": description}


def _number(description: str) -> Schema:
    return {"type": "number", "description": description}


def _integer(description: str) -> Schema:
    return {"type": "integer", "description": description}


def _list(items: Schema, description: str) -> Schema:
    return {"type": "array", "items": items, "description": description}


def _or_null(schema: Schema) -> Schema:
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
