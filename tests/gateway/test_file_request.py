"""OpenAI's form fields as options of Conch, in every spelling that clients send."""

import json
from typing import Any

import pytest

from conch.gateway.errors import ApiError
from conch.gateway.file_request import DIARIZATION, FileRequest, parse
from conch.wire.errors import OptionError


def parsed(**fields: Any) -> FileRequest:
    values = {
        name: tuple(value) if isinstance(value, list) else (value,)
        for name, value in fields.items()
    }
    return parse(values, {"mine": "conch-ctc"})


def test_a_form_without_fields_asks_for_json_of_the_default_path() -> None:
    request = parsed()
    assert (request.format, request.options.sent, request.is_streamed) == ("json", {}, False)
    assert request.ignored == ()


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("", {}),
        ("whisper-1", {}),
        ("gpt-transcribe", {}),
        ("gpt-4o-transcribe", {}),
        ("gpt-4o-mini-transcribe", {}),
        ("gpt-4o-mini-transcribe-2025-12-15", {}),
        ("gpt-4o-transcribe-diarize", {}),
        ("gpt-live-transcribe", {}),
        ("gpt-realtime-whisper", {}),
        ("conch-ctc", {"decoder": "ctc"}),
        ("conch-wfst", {"decoder": "wfst"}),
        ("mine", {"decoder": "ctc"}),
    ],
)
def test_a_model_is_a_path(model: str, options: dict[str, str]) -> None:
    assert parsed(model=model).options.sent == options


def test_an_alias_goes_before_a_name_of_openai() -> None:
    name = "gpt-4o-transcribe-2026-01-01"
    assert parse({"model": (name,)}, {name: "conch-wfst"}).options.sent == {"decoder": "wfst"}
    # One for the model holds for its versions.
    aliases = {"gpt-4o-transcribe": "conch-ctc"}
    assert parse({"model": (name,)}, aliases).options.sent == {"decoder": "ctc"}


@pytest.mark.parametrize("model", ["conch-2025-01-01", "gpt-4o", "gpt-4o-transcribe-2025", "gpt-5"])
def test_a_date_is_for_versions_of_openais_models_alone(model: str) -> None:
    with pytest.raises(ApiError, match=f"no model '{model}'"):
        parsed(model=model)


def test_an_unknown_model_is_refused_with_the_list() -> None:
    with pytest.raises(
        ApiError, match=r"no model 'gpt'; this server has conch, mine, and others, which"
    ) as caught:
        parsed(model="gpt")
    error = caught.value
    assert (error.status, error.param, error.code) == (404, "model", "model_not_found")


@pytest.mark.parametrize(
    "fields",
    [
        {"timestamp_granularities[]": ["word", "segment"]},
        {"timestamp_granularities": ["word", "segment"]},
        {"timestamp_granularities": '["word", "segment"]'},
        {"timestamp_granularities[]": ["word"], "timestamp_granularities": "segment"},
        {"timestamp_granularities": "word,segment"},
        {"timestamp_granularities": "[word, segment]"},
        {"timestamp_granularities[]": ["['word', 'segment']", ""]},
    ],
)
def test_lists_in_every_spelling(fields: dict[str, Any]) -> None:
    request = parsed(**fields, response_format="verbose_json")
    assert request.granularities == {"word", "segment"}
    assert request.options.sent == {"word_timestamps": True}


def test_fields_that_are_empty_are_not_sent() -> None:
    options = ("nbest", "itn", "speakers", "rescore", "known_speakers", "channels", "hotwords")
    lists = ("timestamp_granularities[]", "include", "languages", "keywords")
    others = (
        *("model", "language", "prompt", "response_format", "stream", "temperature"),
        *("chunking_strategy", "chunking_strategy[type]"),
    )
    names = (*options, *lists, *others, "known_speaker_names[]", "known_speaker_references[]")
    assert parsed(**dict.fromkeys(names, "")) == parsed()
    request = parsed(names="", word_timestamps="", response_format="srt", keywords=["Conch", ""])
    assert request.options.sent == {"word_timestamps": True, "names": "Conch"}


@pytest.mark.parametrize("format", ["srt", "vtt", "ctm"])
def test_subtitles_are_cut_at_words_unless_the_client_does_without(format: str) -> None:
    assert parsed(response_format=format).options.sent == {"word_timestamps": True}
    assert parsed(response_format=format, word_timestamps="false").options.sent == {
        "word_timestamps": False
    }


@pytest.mark.parametrize(
    "fields",
    [
        {
            "chunking_strategy[type]": "server_vad",
            "chunking_strategy[threshold]": "0.7",
            "chunking_strategy[prefix_padding_ms]": "200",
            "chunking_strategy[silence_duration_ms]": "400",
        },
        {
            "chunking_strategy": '{"type": "server_vad", "threshold": 0.7, '
            '"prefix_padding_ms": 200, "silence_duration_ms": 400}'
        },
    ],
)
def test_a_chunking_strategy_is_that_of_the_vad(fields: dict[str, str]) -> None:
    assert parsed(**fields).options.sent == {
        "vad_threshold": 0.7,
        "vad_pad_ms": 200,
        "vad_min_silence_ms": 400,
    }


@pytest.mark.parametrize("value", ["auto", "null", ""])
def test_an_automatic_chunking_strategy_is_that_of_conch(value: str) -> None:
    assert parsed(chunking_strategy=value).options.sent == {}


def test_options_of_conch_have_their_types_and_are_checked() -> None:
    request = parsed(nbest="3", rescore="true", lm_weight="0.5", rescorer="ngram", language="en")
    assert request.options.sent == {
        "nbest": 3,
        "rescore": True,
        "lm_weight": 0.5,
        "rescorer": "ngram",
        "language": "en",
    }
    assert request.options.nbest == 3
    for field in ({"nbest": "three"}, {"rescore": "maybe"}, {"nbest": "0"}):
        (name,) = field
        with pytest.raises(OptionError, match=f"option '{name}' takes"):
            parsed(**field)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": "xml"}, "response_format"),
        ({"known_speaker_names[]": ["Ann"]}, "known_speaker_names"),
        ({"known_speaker_references[]": ["data:,"]}, "known_speaker_names"),
        ({"timestamp_granularities[]": "sentence"}, "timestamp_granularities"),
        ({"include[]": "tokens"}, "include"),
        ({"temperature": "1.5"}, "temperature"),
        ({"temperature": "nan"}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"stream": "perhaps"}, "stream"),
        ({"chunking_strategy": "manual"}, "chunking_strategy"),
        ({"chunking_strategy": "{"}, "chunking_strategy"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(
    fields: dict[str, str], param: str
) -> None:
    with pytest.raises(ApiError, match=param) as caught:
        parsed(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_what_means_nothing_is_told() -> None:
    request = parsed(
        model="conch-ctc",
        temperature="0.2",
        prompt="Conch",
        future_field="1",
    )
    assert request.options.sent == {"decoder": "ctc"}
    assert set(request.ignored) == {"temperature", "prompt", "future_field"}
    # Those of OpenAI are known, and need no warning.
    assert request.warnings == ("the field 'future_field' is unknown and changes nothing",)


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        *(("beem_size", "beam_size"), ("Beam-Size", "beam_size"), ("n_best", "nbest")),
        *(
            ("hotword", "hotwords"),
            ("langauge", "language"),
            ("respones_format", "response_format"),
        ),
        *(("diarize", ""), ("user", ""), ("metadata", ""), ("x" * 128, "")),
    ],
)
def test_an_unknown_field_is_named_with_the_one_that_may_be_meant(sent: str, meant: str) -> None:
    (warning,) = parsed(**{sent: "4"}).warnings
    assert warning.startswith(f"the field '{sent[:70]}")
    assert warning.partition("; ")[2] == (f"did you mean '{meant}'?" if meant else "")


def test_many_unknown_fields_are_not_all_named() -> None:
    assert len(parsed(**{f"field{number}": "1" for number in range(200)}).warnings) == 16


def test_known_speakers_are_an_option() -> None:
    references = ["data:audio/wav;base64,AAAA", "data:audio/wav;base64,BBBB"]
    fields = {"known_speaker_names[]": ["Ann", "B"], "known_speaker_references[]": references}
    options = parsed(response_format="diarized_json", **fields).options.sent
    assert options["speakers"] == "auto"
    assert json.loads(options["known_speakers"]) == [
        {"name": "Ann", "audio": references[0]},
        {"name": "B", "audio": references[1]},
    ]
    with pytest.raises(OptionError, match=r"entry 2 \('B'\): its base64 is damaged"):
        parsed(**fields | {"known_speaker_references[]": [references[0], "data:a/b;base64,?"]})


def test_names_of_speakers_tell_them_apart() -> None:
    request = parsed(speaker_names="A=Ann, B=Ben")
    assert request.speaker_names == {"A": "Ann", "B": "Ben"}
    assert request.options.sent == {"speakers": "auto"}
    assert (request.ignored, request.warnings) == ((), ())
    assert parsed(speakers="2", speaker_names="A=Ann").options.sent == {"speakers": 2}
    assert parsed().speaker_names == {}
    with pytest.raises(OptionError, match="'speaker_names' takes labels with names"):
        parsed(speaker_names="Ann")


def test_who_speaks_alone_has_formats_of_its_own() -> None:
    def diarized(**fields: str):
        return parse({name: (text,) for name, text in fields.items()}, {}, forced, DIARIZATION)

    forced = {"decoder": "none"}
    for sent, format in (("json", "diarization"), ("rttm", "rttm")):
        request = diarized(model="conch-ctc", response_format=sent)
        assert (request.format, request.options.sent) == (
            format,
            {"decoder": "none", "speakers": "auto"},
        )
    for name, text in (("response_format", "srt"), ("stream", "true")):
        with pytest.raises(ApiError, match=f"{name} takes"):
            diarized(**{name: text})
    with pytest.raises(OptionError, match=r"'speakers' takes auto .* format diarization"):
        diarized(speakers="off")


def test_a_model_that_tells_speakers_apart_is_warned_of() -> None:
    (warning,) = parsed(model="gpt-4o-transcribe-diarize").warnings
    assert "without speakers" in warning
    request = parsed(model="gpt-4o-transcribe-diarize", response_format="diarized_json")
    assert (request.options.sent["speakers"], request.warnings) == ("auto", ())
    assert parsed(response_format="rttm", speakers="2").options.sent["speakers"] == 2
    with pytest.raises(OptionError, match=r"'speakers' takes auto .* format rttm, .* sent: 'off'"):
        parsed(response_format="rttm", speakers="off")
    assert parsed(model="gpt-4o-transcribe").warnings == ()


def test_a_prompt_goes_to_the_model_that_reads_one_and_is_cut_from_the_front() -> None:
    request = parsed(prompt="x" * 500 + "Conch")
    assert request.options.sent["prompt"] == "x" * 395 + "Conch"
    assert request.ignored == ()
    assert (
        parsed(prompt="Conch", model="conch-wfst", rescore="true").options.sent["prompt"] == "Conch"
    )
    assert "prompt" in parsed(prompt="Conch", model="conch-wfst").ignored


@pytest.mark.parametrize("model", ["conch", "conch-ctc", "conch-wfst"])
def test_keywords_are_names(model: str) -> None:
    fields: Any = {"keywords[]": ["Conch", "Triton"]}
    request = parsed(model=model, **fields)
    assert request.options.sent["names"] == "Conch,Triton"
    assert request.ignored == ()


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, {}),
        ({"languages[]": ["de"]}, {"language": "de"}),
        ({"languages[]": ["de", "en", "de"]}, {"languages": "de,en"}),
        ({"languages": '["de", "en"]'}, {"languages": "de,en"}),
        ({"languages": "de, en"}, {"languages": "de,en"}),
        ({"languages": "[de, en]"}, {"languages": "de,en"}),
        ({"languages": "de,en", "language": "fr"}, {"language": "fr"}),
        ({"languages": ""}, {}),
        ({"task": "translate"}, {"task": "translate"}),
        ({"language": "en-US"}, {"language": "en"}),
        ({"language": "English"}, {"language": "en"}),
        ({"language": ""}, {}),
        ({"language": "", "languages": "de-AT"}, {"language": "de"}),
        ({"languages": ["german", "EN"]}, {"languages": "de,en"}),
    ],
)
def test_languages(fields: dict[str, Any], options: dict[str, str]) -> None:
    assert parsed(**fields).options.sent == options


def test_a_choice_of_languages_is_of_no_use_to_a_decoder_of_one() -> None:
    request = parsed(model="conch-ctc", languages="de,en")
    assert (request.options.sent, request.ignored) == ({"decoder": "ctc"}, ("languages",))
