"""The fields of OpenAI's transcription request, as options of Conch.

Pure: a form in, what to do out. Fields: openai-openapi f85dbe2, `CreateTranscriptionRequest`.
"""

import difflib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

from conch.client import OptionValue
from conch.gateway.bodies import read_json
from conch.gateway.errors import invalid, one_of, wrong
from conch.gateway.models import known_name, options_of
from conch.gateway.option_fields import NAMES, known_speakers, taken_options, with_openais
from conch.wire.formats import with_options_of
from conch.wire.languages import code_of, codes_of
from conch.wire.limits import clipped
from conch.wire.option_values import options_of_text
from conch.wire.options import RecognitionOptions, all_options
from conch.wire.speaker_names import names_of

_FORMATS = (
    *("json", "text", "srt", "verbose_json", "vtt", "ctm", "stm", "diarized_json"),
    *("rttm", "seglst", "conch"),
)
FORMATS: Mapping[str, str] = {name: name for name in _FORMATS}
"""Formats of an answer, by the values of `response_format`."""
GRANULARITIES = ("word", "segment")
NO_MEANING = ("temperature",)
"""OpenAI's fields that change nothing here: the search has no temperature."""
DIARIZATION: Mapping[str, str] = {"json": "diarization", "rttm": "rttm"}
"""Formats of /v1/audio/diarization, by the values of `response_format`."""
MAX_IGNORED = 16
"""Ignored fields that an answer names."""
_VAD_FIELDS = {
    "threshold": "vad_threshold",
    "prefix_padding_ms": "vad_pad_ms",
    "silence_duration_ms": "vad_min_silence_ms",
}
"""Options by the fields of `chunking_strategy`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRequest:
    options: RecognitionOptions
    format: str
    granularities: frozenset[str]
    """Which of `word` and `segment` an answer in verbose_json has."""
    has_logprobs: bool
    """Whether an answer in json has the log probability of every word."""
    is_streamed: bool
    ignored: tuple[str, ...]
    warnings: tuple[str, ...]
    """A sentence for each unknown field, and for what the model cannot do."""
    speaker_names: Mapping[str, str]
    """Names of speakers, by the labels of the answer."""


def parse(
    fields: Mapping[str, tuple[str, ...]],
    aliases: Mapping[str, str],
    forced: Mapping[str, str] = MappingProxyType({}),
    formats: Mapping[str, str] = FORMATS,
) -> FileRequest:
    """Return the request in a form, with values by name: `x[]` and a JSON list are lists too.

    `forced` are options that go before those of the form, as text. `formats` are those of the
    answer, by what `response_format` takes.
    """
    sent = _lists(fields)
    wanted = _last(sent, "response_format") or "json"
    format = formats[one_of("response_format", wanted, tuple(formats))]
    granularities = frozenset(
        one_of("timestamp_granularities", item, GRANULARITIES)
        for item in _words(sent, "timestamp_granularities")
    )
    has_logprobs = "logprobs" in [
        one_of("include", item, ("logprobs",)) for item in _words(sent, "include")
    ]
    stream = _last(sent, "stream").lower() or "false"
    is_streamed = one_of("stream", stream, ("true", "false", "1", "0")) in ("true", "1")
    if is_streamed and format not in FORMATS:
        raise invalid("stream", "stream takes false: who speaks when is known at the end")
    _check_temperature(_last(sent, "temperature"))
    model = _last(sent, "model")
    chosen = dict(options_of(model, aliases))
    chosen |= _chunking(sent)
    known = taken_options()
    own = {name: values[-1] for name, values in sent.items() if name in known and values}
    own.pop("languages", None)
    ignored = [name for name in NO_MEANING if _last(sent, name)]
    if language := own.pop("language", ""):
        own["language"] = code_of(language)
    languages = codes_of(",".join(_words(sent, "languages")))
    if len(languages) == 1:
        own.setdefault("language", languages[0])
    own |= forced
    prompt = own.pop("prompt", "")
    chosen |= options_of_text(own, all_options())
    if has_logprobs or (format == "verbose_json" and "word" in granularities):
        chosen.setdefault("word_timestamps", True)
    chosen |= known_speakers(sent.get(NAMES[0], ()), sent.get(NAMES[1], ()))
    speaker_names = names_of(_last(sent, "speaker_names"))
    if speaker_names or "known_speakers" in chosen:
        chosen.setdefault("speakers", "auto")
    chosen = with_options_of([format], chosen)
    if keywords := sent.get("keywords", ()):
        chosen.setdefault("names", ",".join(keywords))
    options, left_out = with_openais(chosen, languages, prompt, live=False)
    ignored += left_out
    if granularities and format != "verbose_json":
        ignored.append("timestamp_granularities")
    if has_logprobs and not (format == "json" or (is_streamed and format != "conch")):
        ignored.append("include")
    if is_streamed and format not in ("json", "diarized_json", "conch"):
        ignored.append("response_format")
    unknown = [name for name in sent if name not in KNOWN and name not in known]
    ignored += unknown
    warnings = [_unknown_field(name) for name in unknown[:MAX_IGNORED]]
    if known_name(model, aliases).endswith("-diarize") and "speakers" not in options.sent:
        warnings.append(
            f"model {model} answers without speakers unless response_format is diarized_json"
        )
    return FileRequest(
        options=options,
        format=format,
        granularities=granularities or frozenset({"segment"}),
        has_logprobs=has_logprobs,
        is_streamed=is_streamed,
        ignored=tuple(dict.fromkeys(ignored)),
        warnings=tuple(warnings),
        speaker_names=speaker_names,
    )


KNOWN = frozenset(
    (
        *("model", "language", "languages", "prompt", "keywords", "response_format", "stream"),
        *("timestamp_granularities", "include", "chunking_strategy", *NO_MEANING, *NAMES),
        "speaker_names",
    )
)
"""Fields that are no options: OpenAI's, which have an effect or none, and one of Conch's."""


def _unknown_field(name: str) -> str:
    """Return the warning about an unknown field, with the known one that is close."""
    # Newer clients send fields that are far from any of these: no error, and no wild guess.
    close = difflib.get_close_matches(name.lower(), [*taken_options(), *KNOWN], n=1, cutoff=0.75)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return f"the field {clipped(name)!r} is unknown and changes nothing{hint}"


def _lists(fields: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the values by the bare name: `x[]`, repeated `x` and a JSON list are the same.

    The parts of an object keep their names, as in `chunking_strategy[type]`.
    """
    lists: dict[str, tuple[str, ...]] = {}
    for name, values in fields.items():
        bare = name.removesuffix("[]")
        # An option is one value, which may have brackets; `languages` is OpenAI's list as well.
        is_one = bare in taken_options() and bare != "languages"
        items = values if is_one else [i for value in values for i in _json_list(value)]
        lists[bare] = (*lists.get(bare, ()), *(item for item in items if is_one or item.strip()))
    objects = [name for name in lists if name.startswith("chunking_strategy[")]
    sent = {name[len("chunking_strategy[") : -1]: lists.pop(name) for name in objects}
    if parts := {name: values[-1] for name, values in sent.items() if values}:
        lists["chunking_strategy"] = (json.dumps(parts),)
    return lists


def _json_list(value: str) -> Iterable[str]:
    with suppress(ValueError):
        if value.startswith("[") and value.endswith("]"):
            return [str(item) for item in read_json(value)]
    return [value]


def _words(sent: Mapping[str, tuple[str, ...]], name: str) -> list[str]:
    """Return the values of a list of words, of which some clients make `[a, b]` or `a,b`."""
    lists = (value.strip().removeprefix("[").removesuffix("]") for value in sent.get(name, ()))
    pieces = (piece for value in lists for piece in value.split(","))
    return [word for piece in pieces if (word := piece.strip(" \t'\""))]


def _last(sent: Mapping[str, tuple[str, ...]], name: str) -> str:
    return sent[name][-1].strip() if sent.get(name) else ""


def _check_temperature(value: str) -> None:
    with suppress(ValueError):
        if 0 <= float(value or 0) <= 1:
            return
    raise wrong("temperature", "a number from 0 to 1", value)


def _chunking(sent: Mapping[str, tuple[str, ...]]) -> dict[str, OptionValue]:
    """Return the options of `chunking_strategy`: "auto", or an object of type server_vad."""
    text = _last(sent, "chunking_strategy")
    if text in ("", "auto", "null", "none"):
        return {}
    strategy = None
    with suppress(ValueError):
        strategy = read_json(text)
    if not isinstance(strategy, dict) or strategy.get("type") != "server_vad":
        raise wrong("chunking_strategy", "auto or an object of type server_vad", text)
    chosen = {
        option: str(strategy[name])
        for name, option in _VAD_FIELDS.items()
        if strategy.get(name) is not None
    }
    return options_of_text(chosen, all_options())
