"""Which models of a server have names of their own, and what a request may ask of them."""

from pathlib import Path

import pytest

from conch.families.family import models_home
from conch.wire.errors import OptionError, from_wire, to_wire
from conch.wire.named_models import (
    MAX_POST,
    named_models,
    no_text_steps,
    post_models,
    with_its_decoder,
)
from conch.wire.needs import components_of, missing, missing_post, needed_for
from conch.wire.options import RecognitionOptions

NAMED = named_models(
    [
        *("speech", "vad", "ctc_encoder", "my_model.v2"),
        *("ctc_encoder.mine", "ctc_decoder.mine"),
        *("attention_encoder.zh", "attention_decoder.zh"),
    ]
)


def test_names_are_those_of_copies_of_components() -> None:
    assert NAMED == {
        "mine": {"ctc_encoder": "ctc_encoder.mine", "ctc_decoder": "ctc_decoder.mine"},
        "zh": {
            "attention_encoder": "attention_encoder.zh",
            "attention_decoder": "attention_decoder.zh",
        },
    }


@pytest.mark.parametrize(
    ("sent", "decoder"),
    [
        ({"model": "mine"}, "ctc"),
        ({"model": "mine", "decoder": "wfst"}, "wfst"),
        ({"model": "zh", "nbest": 2}, "attention"),
    ],
)
def test_a_name_chooses_a_decoder(sent: dict[str, str], decoder: str) -> None:
    assert with_its_decoder(sent, NAMED) == {**sent, "decoder": decoder}


@pytest.mark.parametrize("sent", [{}, {"model": ""}, {"model": 3}, {"decoder": "ctc"}])
def test_without_a_name_nothing_changes(sent: dict[str, object]) -> None:
    assert with_its_decoder(sent, NAMED) is sent


def test_a_server_has_a_decoder_for_what_requests_leave_open() -> None:
    assert with_its_decoder({"nbest": 2}, NAMED, "ctc") == {"nbest": 2, "decoder": "ctc"}
    assert with_its_decoder({"decoder": "wfst"}, NAMED, "ctc") == {"decoder": "wfst"}
    assert with_its_decoder({"model": "zh"}, NAMED, "ctc")["decoder"] == "attention"


@pytest.mark.parametrize(
    ("sent", "live", "error"),
    [
        ({"model": "fr"}, False, "option 'model' takes mine, zh on this server; sent: 'fr'"),
        ({"model": "zh", "decoder": "ctc"}, False, "takes attention with model zh; sent: 'ctc'"),
        ({"model": "mine"}, True, "'model': mine hears recordings alone, no live audio"),
    ],
)
def test_what_it_cannot_do_is_refused(sent: dict[str, str], live: bool, error: str) -> None:
    with pytest.raises(OptionError, match=error):
        with_its_decoder(sent, NAMED, live=live)


def test_a_server_without_named_models_says_how_to_have_one() -> None:
    with pytest.raises(OptionError, match=r"conch serve --model NAME=FOLDER adds, and this server"):
        with_its_decoder({"model": "mine"}, {})


def test_what_any_decoder_takes_is_left_to_the_server_of_the_model() -> None:
    assert RecognitionOptions.parse({"model": "mine", "lattice": True}).decoder == "wfst"
    with pytest.raises(OptionError, match="'nbest' takes an integer"):
        RecognitionOptions.parse({"model": "mine", "nbest": 0})
    sent = {"model": "mine", "decoder": "attention", "lattice": True}
    with pytest.raises(OptionError, match="goes with decoder wfst; decoder of model mine is atten"):
        RecognitionOptions.parse(sent)


PUNCTUATOR, INVERSE_NORMALIZER = "punctuator", "inverse_normalizer"

ROOT = Path(__file__).parents[2]


def test_what_post_must_not_call_is_every_model_of_conch_that_is_no_text_step():
    shipped = {path.parent.name for path in ROOT.glob("*_models/*/config.pbtxt")}
    assert shipped - {PUNCTUATOR, INVERSE_NORMALIZER} == no_text_steps()


def test_post_is_a_list_in_order():
    assert post_models(" mask , tag_2,mask,") == ("mask", "tag_2", "mask")
    assert post_models("") == ()


@pytest.mark.parametrize("name", sorted(no_text_steps()))
def test_conchs_other_models_are_refused(name):
    with pytest.raises(OptionError, match=f"^option 'post' .*; {name} is none"):
        RecognitionOptions.parse({"post": f"mask,{name}"})


@pytest.mark.parametrize("name", ["a b", "../speech", "__x", "a/1", "ä", "x" * 129, "-x"])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(OptionError, match=r"^option 'post' takes names of models"):
        RecognitionOptions.parse({"post": name})


def test_there_are_at_most_so_many():
    names = [f"m{i}" for i in range(MAX_POST + 1)]
    assert len(post_models(",".join(names[:-1]))) == MAX_POST
    with pytest.raises(OptionError, match=f"'post' takes at most {MAX_POST} models; sent: 9"):
        post_models(",".join(names))


def needs(**options) -> set[str]:
    parsed = RecognitionOptions.parse(options, live=options.get("mode") is not None)
    return set(components_of(parsed))


def test_a_request_needs_the_models_of_its_steps():
    plain = needs(decoder="ctc")
    assert needs(decoder="ctc", punctuate=True) - plain == {PUNCTUATOR}
    assert needs(decoder="ctc", itn=True, post="a,b") - plain == {INVERSE_NORMALIZER, "a", "b"}
    assert needs(decoder="ctc", replace="a=>b") == plain


def test_whispers_text_needs_no_punctuator_but_utterances_without_it_do():
    assert PUNCTUATOR not in needs(punctuate=True)
    assert PUNCTUATOR in needs(mode="two_pass", punctuate=True)
    assert PUNCTUATOR in needs(mode="streaming", punctuate=True)


def test_a_model_that_has_what_is_missing_is_named():
    served = ("speech", "transducer_encoder.toy", "transducer_decoder.toy", "ctc_encoder.mine")
    said = str(missing("transducer_encoder", served))
    assert "decoder=transducer needs it: model=toy has one, its weights come with conch ser" in said
    assert "mine" not in said


def test_what_is_missing_is_told_with_its_option(tmp_path, monkeypatch):
    assert needed_for(PUNCTUATOR) == ("punctuate=true",)
    assert needed_for(INVERSE_NORMALIZER) == ("itn=true",)
    assert "itn=true needs it" in str(missing(INVERSE_NORMALIZER))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    without = str(missing("speaker_embedding"))
    assert (
        "speakers needs it: its weights come with conch models get speakers and a rest" in without
    )
    (models_home() / "speakers").mkdir(parents=True)
    fetched = str(missing("speaker_embedding"))
    assert "speakers needs it: its weights are here: restart the server" in fetched
    error = missing_post("mask")
    assert "option 'post' names the model mask, which is not loaded" in str(error)
    assert to_wire(error).startswith("MODEL_NOT_LOADED(mask): option 'post'")
    assert from_wire(to_wire(error)).model == "mask"
