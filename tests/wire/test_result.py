import json
import math
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from conch.wire.formats import to_json
from conch.wire.result import (
    RARE,
    RARE_OF_SEGMENT,
    Channel,
    Hypothesis,
    OpenUtterance,
    RollingPasses,
    Segment,
    Stage,
    Transcript,
    Unrecognised,
    Word,
    text_of_words,
)

WORDS = (Word("good", 0.1, 0.4, 0.9), Word("day", 0.4, 0.8, 0.8))
BEST = Hypothesis("good day", -0.5, -1.0, -9.0, 2)
TRANSCRIPT = Transcript(
    nbest=(BEST, Hypothesis("good dé", -1.5, -1.5)),
    segments=(Segment(0.0, 1.0, (BEST,), WORDS),),
    duration=2.0,
    path=("vad", "attention_encoder"),
    stages={"vad": Stage(1, 2.5), "total": Stage(1, 3.0)},
)


def plainly(item: Any) -> Any:
    """The JSON value of a transcript by the documented rules, made the slow way."""
    if isinstance(item, dict):
        return {name: plainly(value) for name, value in item.items()}
    if isinstance(item, tuple):
        return [plainly(value) for value in item]
    if not is_dataclass(item):
        return item
    plain = {
        field.name: plainly(getattr(item, field.name))
        for field in fields(item)
        if field.name not in (*RARE, *RARE_OF_SEGMENT) or getattr(item, field.name)
    }
    return {"text": item.text, **plain} if "nbest" in plain else plain


NEWEST = (Word("to", 0.8, 0.9, 0.7),)
SPOKEN = OpenUtterance(0.5, WORDS[:1], WORDS[1:], NEWEST, heard_until=0.85)
LEFT_OUT = Unrecognised(1.5, 1.75, "tür")
SILENT = Unrecognised(2.2, 3.4, "some thing")
FULL = Transcript(
    nbest=(BEST,),
    segments=(
        Segment(0.0, 1.0, (BEST,), WORDS, language="de", language_probability=0.25),
        Segment(
            1.0,
            2.0,
            (replace(BEST, text='Tür "1"\n\t\x1f 我用 🎉', attention_score=-3e-7, ctc_score=1e22),),
            unrecognised=(LEFT_OUT,),
            index=7,
            endpoint="silence",
            passes=2,
            error="no",
            error_code="INVALID_OPTION",
            channel=2,
            lattice="0 1 tür 1,2,3\n",
            translated_from="de",
        ),
        Segment(2.0, 3.5, (Hypothesis("", -1.0, -1.0),), unrecognised=(SILENT,)),
    ),
    duration=3.5,
    path=("vad",),
    stages={"vad": Stage(1, 2.5)},
    stable="good",
    utterance=SPOKEN,
    rolling=RollingPasses(1280, 1, 2, 3, 4),
    channels=(Channel(1, "", 0.0), Channel(2, "good day", -0.5)),
    warnings=("no speech was found",),
    language="en",
    language_probability=0.5,
)


REVISED = replace(FULL, extra={"turns": [{"speaker": "A"}]}, revised=FULL.segments[:1])


@pytest.mark.parametrize("transcript", [TRANSCRIPT, FULL, REVISED])
def test_the_json_has_all_fields_in_their_order(transcript: Transcript) -> None:
    text = transcript.to_json()
    assert json.dumps(json.loads(text)) == json.dumps(plainly(transcript))
    assert Transcript.from_json(text) == transcript
    # As `json` writes it, with spaces and escapes.
    assert Transcript.from_json(json.dumps(plainly(transcript))) == transcript
    assert Transcript.from_json(text.encode()) == transcript


def test_numbers_of_numpy_are_numbers() -> None:
    numbers: dict[str, Any] = {"score": np.float64(-0.5), "ctc_score": np.float32(-0.25)}
    scored = replace(BEST, **numbers)
    data = json.loads(replace(TRANSCRIPT, nbest=(scored,)).to_json())
    assert (data["nbest"][0]["score"], data["nbest"][0]["ctc_score"]) == (-0.5, -0.25)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"nbest": 3}'])
def test_what_is_no_transcript(text: str) -> None:
    with pytest.raises(ValueError):
        Transcript.from_json(text)


def test_a_live_text_is_written_no_more_than_twice():
    spoken = replace(TRANSCRIPT, nbest=(BEST,), segments=(), is_final=False, stable="good")
    assert Transcript.from_json(spoken.to_json()) == spoken
    data = json.loads(spoken.to_json())
    assert "nbest" not in data
    assert (data["text"], data["stable"], data["score"]) == ("good day", "good", -0.5)
    final = replace(spoken, is_final=True)
    assert Transcript.from_json(final.to_json()) == final
    assert json.loads(final.to_json())["nbest"][0]["text"] == "good day"


def test_keys_of_a_newer_server_are_ignored():
    data = json.loads(TRANSCRIPT.to_json())
    data["nbest"][0]["tone"] = data["segments"][0]["tone"] = {"calm": [1, None]}
    data["segments"][0]["words"][0]["tone"] = data["stages"]["vad"]["tone"] = 1
    data["weather"] = "fair"
    assert Transcript.from_json(json.dumps(data)) == TRANSCRIPT


@pytest.mark.parametrize(
    ("names", "of_segments"),
    [
        (["stable"], ["text", "index", "endpoint", "passes", "error"]),
        (["channels", "warnings"], ["channel"]),
        ([], ["unrecognised"]),
    ],
)
def test_json_of_an_older_server_reads_back(names, of_segments):
    data = json.loads(TRANSCRIPT.to_json())
    for name in names:
        del data[name]
    for name in of_segments:
        del data["segments"][0][name]
    assert Transcript.from_json(json.dumps(data)) == TRANSCRIPT


def strict(text: str) -> dict:
    """What a reader makes of it that takes no NaN, as JSON has none."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_numbers_that_json_cannot_hold():
    worst = replace(BEST, score=-math.inf, am_score=math.nan, lm_score=math.nan)
    word = Word("good", 0.1, 0.4, math.nan)
    segment = Segment(0.0, 1.0, (worst,), (word,))
    transcript = replace(TRANSCRIPT, nbest=(worst,), segments=(segment,))
    data = strict(transcript.to_json())
    for hypothesis in (data["nbest"][0], data["segments"][0]["nbest"][0]):
        # Impossible is still a number, and the least, as in SCORES; not a number is none.
        assert hypothesis["score"] == -float(np.finfo(np.float32).max)
        assert hypothesis["am_score"] is None
        assert hypothesis["lm_score"] is None
    assert data["segments"][0]["words"][0]["confidence"] is None
    assert (data["text"], data["duration"]) == ("good day", 2.0)
    assert strict(to_json(transcript))["score"] == -float(np.finfo(np.float32).max)

    result = Transcript.from_json(transcript.to_json())
    assert math.isnan(result.nbest[0].am_score)
    assert result.nbest[0].lm_score is None
    assert math.isnan(result.words[0].confidence)
    assert result.nbest[0].score < -1e38


def test_views():
    assert TRANSCRIPT.text == "good day"
    assert TRANSCRIPT.words == WORDS
    assert TRANSCRIPT.segments[0].text == "good day"
    assert FULL.unrecognised == (LEFT_OUT, SILENT)
    assert SPOKEN.text == "good day to"


def test_segments_are_read_once_however_many_channels_they_have():
    class Counted(tuple[Segment, ...]):
        reads = 0

        def __iter__(self):
            Counted.reads += 1
            return super().__iter__()

    said = [replace(TRANSCRIPT.segments[0], channel=number) for number in (2, 1, 3, 1)]
    result = dict(replace(TRANSCRIPT, segments=Counted(said)).by_channel())
    assert [*result.items()] == [(1, [said[1], said[3]]), (2, [said[0]]), (3, [said[2]])]
    assert Counted.reads == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], ""),
        (["Good", "day,", "Ms.", "Li"], "Good day, Ms. Li"),
        (["你", "好", "。", "再", "见"], "你好。再见"),
        (["你好，", "世界！", "再见"], "你好，世界！再见"),  # noqa: RUF001
        (["こん", "にちは"], "こんにちは"),
        (["สวัสดี", "ครับ"], "สวัสดีครับ"),
        (["안녕", "하세요"], "안녕 하세요"),  # Korean has spaces
        (["用", "Triton", "吗"], "用 Triton 吗"),
        (["नमस्ते", "दुनिया"], "नमस्ते दुनिया"),
    ],
)
def test_the_text_of_words_has_the_spaces_of_their_script(words, text):
    assert text_of_words([Word(word, 0, 1, 0.9) for word in words]) == text
