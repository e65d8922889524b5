"""Which models a text step may call, and which options need which."""

from pathlib import Path

import pytest

from conch.families.family import models_home
from conch.wire.errors import OptionError, from_wire, to_wire
from conch.wire.named_models import MAX_POST, no_text_steps, post_models
from conch.wire.needs import components_of, missing, missing_post, needed_for
from conch.wire.options import RecognitionOptions

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
