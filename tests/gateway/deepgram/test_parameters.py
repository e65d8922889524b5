"""Each of Deepgram's parameters, as options of Conch."""

from typing import Any

import pytest

from conch.gateway.deepgram.parameters import (
    HINTS,
    LEAST_ENDPOINT_MS,
    REFUSED,
    FileParameters,
    LiveParameters,
    Parameters,
    read,
    recognition_options,
)
from conch.gateway.errors import ApiError
from conch.wire.errors import OptionError

ALWAYS = {"word_timestamps": True}
LIVE = {**ALWAYS, "partials": False}


def pairs(query: str) -> list[tuple[str, str]]:
    split = (item.partition("=") for item in query.split("&") if item)
    return [(name, value) for name, _, value in split]


def options(query: str, cls: type[Parameters] = LiveParameters) -> dict[str, Any]:
    aliases = {"nova-9": "small", "mine": "conch-attention"}
    return dict(recognition_options(read(cls, pairs(query)), aliases).sent)


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ("", {}),
        ("punctuate=false&numerals=&diarize=False&endpointing=true", {}),
        *((f"model={name}", {}) for name in ("nova-3", "nova-2-phonecall", "general", "conch")),
        ("model=nova-9", {"model": "small"}),
        ("model=mine", {"decoder": "attention"}),
        ("language=en-US", {"language": "en"}),
        ("language=multi", {}),
        ("language=multi&language_hint=en&language_hint=de", {"languages": "en,de"}),
        ("language_hint=de-AT", {"language": "de"}),
        ("punctuate=true", {"punctuate": True}),
        ("smart_format=True", {"punctuate": True, "itn": True}),
        ("numerals=true", {"itn": True}),
        *((name, {"speakers": "auto"}) for name in ("diarize=true", "diarize_model=latest")),
        ("keyterm=Syme&keyterm=San, Jose", {"names": "Syme, San Jose"}),
        ("keywords=Syme&keywords=Conch:2", {"names": "Syme:8, Conch:16"}),
        ("keywords=Conch:99", {"names": "Conch:100"}),
        ("replace=conch:Conch&replace=a;b:c", {"replace": r"conch=>Conch;a\;b=>c"}),
        ("profanity_filter=true", {"post": "profanity_filter"}),
        ("endpointing=800", {"endpoint_silence_ms": 800}),
        ("endpointing=10", {"endpoint_silence_ms": LEAST_ENDPOINT_MS}),
        ("endpointing=false", {}),
        ("interim_results=true", {"partials": True}),
        (
            "vad_events=true",
            {"partials": True, "turn_events": True, "eager_end_threshold": 1.0},
        ),
        ("utterance_end_ms=1000", {"partials": True}),
        ("&".join(f"{name}=x" for name in HINTS), {}),
        ("&".join(f"{name}=false" for name in REFUSED), {}),
    ],
)
def test_a_parameter_sets_an_option(query: str, sent: dict[str, Any]) -> None:
    assert options(query) == LIVE | sent


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ("multichannel=true&channels=2&encoding=mulaw", {"channels": "split"}),
        ("detect_language=true&utterances=true&utt_split=1.5", {}),
        ("language=en&smart_format=true", {"language": "en", "punctuate": True, "itn": True}),
    ],
)
def test_a_parameter_of_recordings_sets_an_option(query: str, sent: dict[str, Any]) -> None:
    assert options(query, FileParameters) == ALWAYS | sent


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("interim_result=true", "unknown option 'interim_result'; did you mean 'interim_results'"),
        ("utterances=true", "unknown option 'utterances'"),
        ("punctuate=yes", "'punctuate' takes a bool"),
        ("encoding=speex", "'encoding' takes one of linear16, linear32, mulaw, alaw"),
        ("encoding=linear16", "sample_rate is needed with encoding=linear16"),
        ("sample_rate=300", "'sample_rate' takes an integer from 4000 to 192000"),
        ("channels=2", "channels takes 1 in a stream"),
        ("multichannel=true", "multichannel takes false in a stream"),
        ("endpointing=soon", "'endpointing' takes true, false or an integer from 0 to 10000"),
        ("utterance_end_ms=-1", "'utterance_end_ms' takes an integer from 0 to 60000"),
        ("keywords=a:b", "keywords takes WORD:BOOST; sent: 'a:b'"),
        ("keywords=a:-1", "'names' takes weights from 0 to 100"),
        ("replace=a", "replace takes HEARD:WRITTEN; sent: 'a'"),
        ("replace=:a", "option 'replace', rule 1"),
        ("language=en&language=de", "'language' comes once"),
        ("model=flux-general-en", "no model 'flux-general-en'"),
        *((f"{name}=x", f"{name} has no counterpart here") for name in REFUSED),
    ],
)
def test_a_wrong_parameter_is_named(query: str, message: str) -> None:
    with pytest.raises((ApiError, OptionError)) as raised:
        options(query)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("query", "own"),
    [
        ("", ("container", 16_000)),
        ("encoding=opus", ("container", 16_000)),
        ("encoding=linear16&sample_rate=24000", ("pcm16", 24_000)),
        ("encoding=linear32&sample_rate=8000", ("float32", 8_000)),
        ("encoding=mulaw", ("mulaw", 8_000)),
        ("encoding=alaw&sample_rate=16000", ("alaw", 16_000)),
    ],
)
def test_an_encoding_is_one_of_conchs(query: str, own: tuple[str, int]) -> None:
    asked = read(LiveParameters, pairs(query))
    assert (asked.own_encoding, asked.own_rate) == own
