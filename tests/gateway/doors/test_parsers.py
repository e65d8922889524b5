"""Whatever is sent, a parser gives a value or one of the errors that clients are told."""

import asyncio
import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any

import pytest
from fuzzing import check_few, check_many
from hypothesis import strategies as st
from wyoming.asr import Transcribe
from wyoming.audio import AudioChunk
from wyoming.tts import Synthesize

from conch.gateway import file_request, format, listen, socket_session, speak, speech, voicing
from conch.gateway.deepgram.parameters import (
    HINTS,
    REFUSED,
    FileParameters,
    LiveParameters,
    Parameters,
    read,
    recognition_options,
)
from conch.gateway.deepgram.speak import SpeakParameters, voicing_of
from conch.gateway.deepgram.turns import TurnParameters
from conch.gateway.errors import ApiError
from conch.gateway.realtime.config import SessionConfig
from conch.gateway.realtime.events import read_event
from conch.gateway.riva import recognition_config
from conch.gateway.riva import synthesis as riva_synthesis
from conch.gateway.riva.protocol import RECOGNITION, SYNTHESIS, methods_of
from conch.gateway.wyoming import events
from conch.gateway.wyoming import recognition as wyoming_recognition
from conch.gateway.wyoming import synthesis as wyoming_synthesis
from conch.wire import hotwords, known_speakers, option_values, options, replacements, synthesis
from conch.wire.errors import ConchError, InternalError
from lab.chaos.doors.forms import FIELDS, FORM_VALUES
from lab.chaos.drawn import TEXTS, mostly, values
from lab.chaos.drawn import options as drawn_options

EXAMPLES, NIGHTLY_EXAMPLES = 150, 2_000
REPLACED = (
    *("1" * 400, "9" * 5_000, "-0", "1e999", "NaN", "Infinity", '"\\ud83d"', "[" * 40 + "]" * 40),
    *("null", '""', "{}", "true"),
)
"""Values of JSON that no library writes of values of Python."""


def texts() -> st.SearchStrategy[str]:
    """Return texts, some of the signs that parsers look for."""
    signs = st.text("a0é,:;=\n \"'[]{}\\.-+%>/\u0130\u202e\U0001f41a", max_size=40)
    return st.one_of(
        st.text(max_size=20), signs, st.sampled_from([*TEXTS, *FORM_VALUES, *REPLACED])
    )


def scalars() -> st.SearchStrategy[str]:
    """Return the text of a value in a form or a query."""
    return st.one_of(texts(), values().map(lambda value: json.dumps(value)), values().map(str))


@st.composite
def bodies(draw: st.DrawFn, *names: str) -> str:
    """Return JSON of an object with some of these names; a part of it may be replaced or cut."""
    known = st.dictionaries(st.sampled_from(names), mostly(values(), texts()), max_size=4)
    text = json.dumps(draw(mostly(known, values())))
    at, to = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    return draw(
        st.sampled_from(
            [text, text, text[:to], text[:at] + draw(st.sampled_from(REPLACED)) + text[to:]]
        )
    )


def queries(*names: str) -> st.SearchStrategy[list[tuple[str, str]]]:
    """Return pairs of a query; most have a known name."""
    known = st.sampled_from([*names, *options.all_options()])
    return st.lists(st.tuples(mostly(known, texts()), scalars()), max_size=5)


@st.composite
def messages(draw: st.DrawFn, kind: Any, depth: int = 3) -> Any:
    """Return a message of protobuf with any values."""
    message = kind()
    for item in draw(st.lists(st.sampled_from([*kind.DESCRIPTOR.fields]), max_size=6, unique=True)):
        number = st.one_of(st.integers(-3, 100), st.sampled_from([2**31 - 1, -(2**31)]))
        of_type: dict[int, st.SearchStrategy[Any]] = {
            item.TYPE_STRING: texts(),
            item.TYPE_BYTES: st.binary(max_size=20),
            item.TYPE_BOOL: st.booleans(),
            item.TYPE_FLOAT: st.floats(width=32),
        }
        if item.message_type is not None and item.message_type.GetOptions().map_entry:
            for name, value in draw(queries()):
                getattr(message, item.name)[name] = value
        elif item.message_type is not None:
            inner = getattr(message, item.name)
            repeated = item.is_repeated
            for _ in range(draw(st.integers(0, 2)) if repeated and depth else min(depth, 1)):
                made = inner.add() if repeated else inner
                made.CopyFrom(draw(messages(type(made), depth - 1)))
        elif item.is_repeated:
            getattr(message, item.name).extend(draw(st.lists(of_type[item.type], max_size=3)))
        else:
            setattr(message, item.name, draw(of_type.get(item.type, number)))
    return message


def _message_of(service: str, name: str) -> Any:
    return methods_of(service)[name].request


def _form(fields: list[tuple[str, str]]) -> None:
    lists: dict[str, tuple[str, ...]] = {}
    for name, value in fields:
        lists[name] = (*lists.get(name, ()), value)
    file_request.parse(lists, {"mine": "small"})


def _realtime(text: str) -> None:
    event = read_event(text)
    assert event.type
    if "audio" in event.fields:
        assert isinstance(event.audio, bytes)
    SessionConfig().updated(event.fields.get("session"), {}).as_session()


def _session(text: str) -> None:
    config = SessionConfig().updated(json.loads(text), {})
    json.dumps(config.as_session()), json.dumps(config.as_beta_session())


def _event(data: bytes) -> None:
    async def read() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        incoming: Any = events.Events(reader, None, 1.0)  # type: ignore[arg-type]
        while (event := await incoming.next()) is not None:
            if event.type == "audio-chunk":
                chunk = AudioChunk.from_event(event)
                assert events.samples_of(chunk.audio, chunk).ndim == 1
            elif event.type == "transcribe":
                wyoming_recognition.parse_options(Transcribe.from_event(event), {}, ("en",))
            elif event.type == "synthesize":
                said = Synthesize.from_event(event)
                wyoming_synthesis.parse_options(said.voice, said.text_format)

    # What a client is told of a field that is missing: see `WyomingConnection`.
    with suppress(KeyError):
        asyncio.run(read())


def _format(text: str) -> None:
    format._written(text.encode(errors="surrogatepass"))


def _deepgram(kind: type[Parameters], pairs: list[tuple[str, str]]) -> None:
    recognition_options(read(kind, pairs), {"mine": "small"})


def _hotwords(text: str) -> None:
    for item in hotwords.hotwords_of(text, 5.0):
        assert math.isfinite(item.weight)


@st.composite
def wyoming_events(draw: st.DrawFn) -> bytes:
    """Return lines of events, with payloads that are as long as they say or not."""
    types = ("transcribe", "audio-start", "audio-chunk", "synthesize", "describe", "x")
    names = ("rate", "width", "channels", "voice", "text", "name", "language", "transcript_names")
    fields = st.dictionaries(st.sampled_from(names), mostly(st.integers(0, 5), values()))
    written = b""
    for _ in range(draw(st.integers(1, 3))):
        payload = draw(st.binary(max_size=12))
        length = draw(mostly(st.just(len(payload)), st.one_of(st.integers(-2, 20), values())))
        data = draw(fields)
        head = {"type": draw(mostly(st.sampled_from(types), values())), "data": data}
        text = json.dumps({**head, "payload_length": length})
        written += draw(mostly(st.just(text), bodies(*types))).encode() + b"\n" + payload
    return written


SESSION = ("type", "audio", "include", "conch", "input_audio_format", "turn_detection")
TRANSCRIPT = ("transcript", "format", "name")
PARSERS: dict[str, tuple[Callable[[Any], object], st.SearchStrategy[Any]]] = {
    "form": (_form, queries(*FIELDS, "stream", "known_speakers")),
    "query of listen": (
        lambda pairs: listen.query_of(pairs, {"mine": "small"}),
        queries(*listen.OWN),
    ),
    "query of speak": (
        lambda pairs: speak.query_of(pairs, {}),
        queries(*voicing.OPTIONS, "format"),
    ),
    "query of Deepgram": (
        lambda pairs: _deepgram(LiveParameters, pairs),
        queries(*(item.name for item in fields(LiveParameters)), *HINTS, *REFUSED),
    ),
    "query of Deepgram, of turns": (
        lambda pairs: _deepgram(TurnParameters, pairs),
        queries(*(item.name for item in fields(TurnParameters)), *REFUSED),
    ),
    "query of Deepgram, of a recording": (
        lambda pairs: _deepgram(FileParameters, pairs),
        queries(*(item.name for item in fields(FileParameters)), *REFUSED),
    ),
    "query of Deepgram's speech": (
        lambda pairs: voicing_of(pairs, live=False),
        queries(*(item.name for item in fields(SpeakParameters)), *HINTS),
    ),
    "command": (socket_session.command_in, bodies("type", "text")),
    "event of realtime": (_realtime, bodies("type", "audio", "session", "event_id")),
    "body of speech": (
        lambda text: speech.read(text.encode(), {}),
        bodies(*speech.KNOWN),
    ),
    "transcript": (_format, bodies(*TRANSCRIPT)),
    "Wyoming": (_event, st.one_of(wyoming_events(), st.binary(max_size=60))),
    "options": (options.RecognitionOptions.parse, drawn_options()),
    "options, live": (
        lambda sent: options.RecognitionOptions.parse(sent, live=True),
        drawn_options(),
    ),
    "options of speech": (
        synthesis.SynthesisOptions.parse,
        st.dictionaries(st.sampled_from([*voicing.OPTIONS, "format"]), values(), max_size=4),
    ),
    "options as texts": (
        lambda pairs: option_values.options_of_text(dict(pairs), options.all_options()),
        queries(),
    ),
    "hotwords": (_hotwords, texts()),
    "replacements": (replacements.read_replacements, st.one_of(texts(), bodies("a"))),
    "known speakers": (
        known_speakers.known_speakers_of,
        st.one_of(
            texts(),
            st.lists(bodies("name", "audio", "embedding"), max_size=3).map(
                lambda found: f"[{','.join(found)}]"
            ),
        ),
    ),
    "recording of Riva": (
        lambda message: recognition_config.settings_of(message.config, {}, live=False),
        messages(_message_of(RECOGNITION, "Recognize")),
    ),
    "stream of Riva": (
        lambda message: recognition_config.settings_of(
            message.streaming_config.config, {}, live=True
        ),
        messages(_message_of(RECOGNITION, "StreamingRecognize")),
    ),
    "text of Riva": (
        riva_synthesis.text_and_voicing,
        messages(_message_of(SYNTHESIS, "Synthesize")),
    ),
}
"""Each with what is drawn for it."""


def checked(name: str) -> Callable[[Any], None]:
    """Return a check of what one parser makes of an item."""

    def check(item: Any) -> None:
        try:
            PARSERS[name][0](item)
        except InternalError:
            raise
        except (ApiError, ConchError) as error:
            assert 0 < len(str(error).encode()) < 2_000
            assert not isinstance(error, ApiError) or error.status < 500

    return check


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_gives_a_value_or_an_error(name: str) -> None:
    check_few(PARSERS[name][1], checked(name), EXAMPLES)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_gives_a_value_or_an_error_whatever_is_drawn(name: str) -> None:
    check_many(PARSERS[name][1], checked(name), NIGHTLY_EXAMPLES)
