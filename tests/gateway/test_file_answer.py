"""Transcripts as OpenAI's bodies, checked by the fields that its clients' types demand."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from conch.gateway import file_answer
from conch.gateway.file_request import parse
from conch.wire.languages import LANGUAGES
from conch.wire.result import Hypothesis, Segment, Transcript, Word

WORDS = (Word("Hello,", 0.5, 0.9, 0.9), Word("world.", 1.0, 1.4, 0.5))
SEGMENTS = (
    Segment(0.4, 1.5, (Hypothesis("Hello, world.", -1.0, -1.0),), words=WORDS),
    Segment(2.0, 2.5, (Hypothesis("", 0.0, 0.0),)),
    Segment(3.0, 4.0, (Hypothesis("Again.", -0.5, -0.5),), words=(Word("Again.", 3.1, 3.9, 1.0),)),
)
TRANSCRIPT = Transcript(
    nbest=(Hypothesis("Hello, world. Again.", -1.5, -1.5),),
    segments=SEGMENTS,
    duration=4.2,
    path=("vad",),
    stages={},
)
SEGMENT_KEYS = {
    *("id", "seek", "start", "end", "text", "tokens", "temperature", "avg_logprob"),
    *("compression_ratio", "no_speech_prob"),
}


def request_of(**fields: Any) -> Any:
    values = {name: tuple(v) if isinstance(v, list) else (v,) for name, v in fields.items()}
    return parse(values, {})


def answered(said: Transcript = TRANSCRIPT, **fields: Any) -> Any:
    return json.loads(file_answer.body(said, request_of(**fields)))


def test_json_has_the_text_and_what_it_cost() -> None:
    assert answered() == {
        "text": "Hello, world. Again.",
        "usage": {"type": "duration", "seconds": 5},
    }


def test_logprobs_spell_the_text() -> None:
    result = answered(include=["logprobs"])["logprobs"]
    assert "".join(item["token"] for item in result) == "Hello, world. Again."
    assert b"".join(bytes(item["bytes"]) for item in result).decode() == "Hello, world. Again."
    assert result[1]["logprob"] == pytest.approx(math.log(0.5))


@pytest.mark.parametrize("confidence", [0.0, math.nan])
def test_a_log_probability_is_a_number(confidence: float) -> None:
    words = (Word("你", 0.0, 0.1, confidence), Word("好", 0.1, 0.2, 1.0))
    result = file_answer.logprobs(words)
    assert [item["token"] for item in result] == ["你", "好"]
    assert [item["logprob"] for item in result] == [-100.0, 0.0]


def test_verbose_json_has_every_key_of_a_segment_and_numbers_for_times() -> None:
    result = answered(response_format="verbose_json", language="de")
    assert result["task"] == "transcribe"
    assert result["language"] == "german"
    assert result["duration"] == 4.2
    assert "words" not in result
    assert [set(item) for item in result["segments"]] == [SEGMENT_KEYS, SEGMENT_KEYS]
    first, second = result["segments"]
    assert (first["id"], first["seek"], first["start"], first["end"]) == (0, 40, 0.4, 1.5)
    assert (second["id"], second["start"]) == (1, 3.0)
    assert first["avg_logprob"] == -0.5
    assert "".join(item["text"] for item in result["segments"]) == " Hello, world. Again."


def test_a_log_probability_is_for_each_character_where_there_are_no_spaces() -> None:
    segment = Segment(0.0, 2.0, (Hypothesis("今天天气很好。", -1.2, -1.2),))
    body = answered(replace(TRANSCRIPT, segments=(segment,)), response_format="verbose_json")
    assert body["segments"][0]["avg_logprob"] == pytest.approx(-0.2)


@pytest.mark.parametrize(
    ("told", "options", "task", "language"),
    [
        ("zh", {}, "transcribe", "chinese"),
        ("en", {"task": "translate"}, "translate", "english"),
        ("", {}, "transcribe", "unknown"),
    ],
)
def test_verbose_json_tells_the_language_of_the_answer(told, options, task, language) -> None:
    said = replace(TRANSCRIPT, language=told)
    result = answered(said, response_format="verbose_json", **options)
    assert (result["task"], result["language"]) == (task, language)


def test_verbose_json_has_what_the_granularities_ask_for() -> None:
    result = answered(response_format="verbose_json", timestamp_granularities=["word"])
    assert "segments" not in result
    assert result["words"][0] == {"word": "Hello,", "start": 0.5, "end": 0.9}
    assert len(result["words"]) == 3


def test_the_own_format_is_the_whole_transcript() -> None:
    text = file_answer.body(TRANSCRIPT, request_of(response_format="conch"))
    assert Transcript.from_json(text) == TRANSCRIPT


@pytest.mark.parametrize("format", ["text", "srt", "vtt"])
def test_text_formats_are_text_for_clients_that_parse_by_type(format: str) -> None:
    body = file_answer.body(TRANSCRIPT, request_of(response_format=format))
    assert "Hello, world." in body
    assert file_answer.CONTENT_TYPES[format].startswith("text/")


CUT_OFF = "the file is cut off: 2.0 of the 4.2 s that its header says\u2026"


@pytest.mark.parametrize("format", ["json", "verbose_json", "conch"])
def test_a_body_has_the_warnings_about_the_request_and_the_file(format: str) -> None:
    said = replace(TRANSCRIPT, warnings=(CUT_OFF,))
    wrong = {"response_format": format, "beem_size": "4"}
    (about_the_form,) = request_of(**wrong).warnings
    assert answered(said, **wrong)["warnings"] == [about_the_form, CUT_OFF]
    assert not answered(response_format=format).get("warnings")


@pytest.mark.parametrize("format", ["json", "conch"])
def test_the_last_event_has_the_warnings(format: str) -> None:
    deltas = file_answer.Deltas(request_of(response_format=format, stream="true", beem_size="4"))
    last = deltas.of_whole(replace(TRANSCRIPT, warnings=(CUT_OFF,)))
    warnings = last["warnings"] if format == "json" else last["transcript"].warnings
    assert list(warnings)[1:] == [CUT_OFF]
    assert "did you mean 'beam_size'?" in warnings[0]
    assert "warnings" not in file_answer.Deltas(request_of(stream="true")).of_whole(TRANSCRIPT)


def test_the_header_of_warnings_is_one_short_line_of_ascii() -> None:
    assert file_answer.headers(request_of()) == {}
    sent = (CUT_OFF, "a\r\nset-cookie: b", "\udcff")
    text = file_answer.headers(request_of(), sent)["x-conch-warnings"]
    assert text.isascii() and text.isprintable()
    assert json.loads(text) == list(sent)
    many = file_answer.headers(request_of(), [CUT_OFF * 3] * 100)["x-conch-warnings"]
    assert 1300 < len(many) <= file_answer.MAX_HEADER
    assert set(json.loads(many)) == {CUT_OFF * 3}
    assert file_answer.headers(request_of(), [CUT_OFF * 300]) == {}


def test_what_is_for_scoring_names_the_recording_audio() -> None:
    ctm = file_answer.body(TRANSCRIPT, request_of(response_format="ctm")).splitlines()
    assert all(line.startswith("audio A ") for line in ctm)
    assert [line.split()[4] for line in ctm] == TRANSCRIPT.text.split()
    stm = file_answer.body(TRANSCRIPT, request_of(response_format="stm"))
    assert "audio A audio-A " in stm
    for format in ("ctm", "stm"):
        assert file_answer.CONTENT_TYPES[format] == "text/plain"


def test_segments_of_a_script_without_spaces_begin_without_one() -> None:
    texts = ("你好。", "今天好。", "Fine,", "thanks.")
    segments = tuple(Segment(0.0, 1.0, (Hypothesis(text, -1.0, -1.0),)) for text in texts)
    said = replace(TRANSCRIPT, segments=segments)
    result = answered(said, response_format="verbose_json")["segments"]
    assert [item["text"] for item in result] == ["你好。", "今天好。", "Fine,", " thanks."]


def test_deltas_spell_the_last_event() -> None:
    deltas = file_answer.Deltas(request_of(include=["logprobs"]))
    events = [event for item in SEGMENTS for event in deltas.of_part(part_of(item))]
    last = deltas.of_whole(TRANSCRIPT)
    assert [event["type"] for event in events] == ["transcript.text.delta"] * 2
    assert "".join(event["delta"] for event in events) == last["text"] == TRANSCRIPT.text
    assert last["type"] == "transcript.text.done"
    tokens = [item["token"] for event in events for item in event["logprobs"]]
    assert "".join(tokens) == TRANSCRIPT.text


def test_deltas_of_a_script_without_spaces_have_none() -> None:
    deltas = file_answer.Deltas(request_of())
    parts = [Segment(0, 1, (Hypothesis(text, 0, 0),)) for text in ("你好", "世界")]
    events = [event for item in parts for event in deltas.of_part(part_of(item))]
    assert [event["delta"] for event in events] == ["你好", "世界"]


def part_of(segment: Segment) -> Transcript:
    return Transcript(segment.nbest, (segment,), segment.end, (), {})


def test_every_language_has_one_name() -> None:
    assert len(LANGUAGES) == len(set(LANGUAGES.values())) == 100
    assert LANGUAGES["ht"] == "haitian creole"
    assert LANGUAGES["yue"] == "cantonese"
