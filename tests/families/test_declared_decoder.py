"""A decoder is declared by its family: the option `decoder` and what follows from it know it."""

import pytest

import conch.families
from conch.families import FAMILIES
from conch.families.family import Decoder, Family
from conch.wire.errors import OptionError
from conch.wire.nbest import Weights
from conch.wire.needs import components_of, needed_for
from conch.wire.option_values import describe
from conch.wire.options import RecognitionOptions, all_options

SEGMENT = ("speller_encoder", "speller_decoder")
LIVE = ("speller_streaming_encoder", "speller_streaming_decoder")
DEAF = Decoder(name="deaf", components=SEGMENT)
SPELLER = Decoder(
    name="speller",
    components=SEGMENT,
    live=LIVE,
    writes_punctuation=True,
    defaults={"beam_size": 7},
    rescored={"beam_size": 9},
    presets={"best": {"rescore": True}},
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    family = Family(name="speller", title="Speller", decoders=(SPELLER, DEAF))
    monkeypatch.setattr(conch.families, "FAMILIES", (*FAMILIES, family))


def parsed(live: bool = False, **sent: object) -> RecognitionOptions:
    return RecognitionOptions.parse(sent, live=live)


def test_it_is_a_value_of_the_option() -> None:
    known = "moonshine, attention, transducer, paraformer, paraformer_online, sensevoice, kaldi, "
    known += "wenet, ctc, wfst, none, speller, deaf"
    assert describe(all_options()["decoder"]) == f"one of {known}"
    with pytest.raises(OptionError, match=r"takes one of .*speller, deaf; sent: 'spell'"):
        parsed(decoder="spell")


def test_a_recording_needs_its_encoder_and_decoder() -> None:
    assert set(components_of(parsed(decoder="speller"))) == {"vad", *SEGMENT}
    assert needed_for("speller_decoder") == ("decoder=speller", "decoder=deaf")
    assert needed_for(LIVE[0]) == ("mode=streaming", "mode=two_pass")


def test_it_has_defaults_and_presets_of_its_own() -> None:
    assert parsed(decoder="speller").beam_size == 7
    best = parsed(decoder="speller", accuracy="best")
    assert (best.rescore, best.beam_size) == (True, 9)
    assert parsed(decoder="deaf").beam_size == 1


def test_its_scores_count_alone_until_weights_are_tuned() -> None:
    assert parsed(decoder="speller", rescore=True, rescorer="ngram").weights == Weights()
    sent = parsed(decoder="speller", rescore=True, rescorer="ngram", lm_weight=0.3)
    assert sent.weights == Weights(lm=0.3)


def test_text_that_has_punctuation_needs_no_punctuator() -> None:
    assert "punctuator" not in components_of(parsed(decoder="speller", punctuate=True))
    assert "punctuator" in components_of(parsed(decoder="deaf", punctuate=True))


def test_options_of_other_decoders_are_refused() -> None:
    for name in ("lattice", "ctc_rescore", "attention_rescore"):
        with pytest.raises(OptionError, match=f"option '{name}' goes with decoder .*speller"):
            parsed(decoder="speller", **{name: True})


def test_a_decoder_that_hears_live_audio_is_not_passed_over_again() -> None:
    streaming = parsed(decoder="speller", live=True)
    assert streaming.mode == "streaming"
    assert set(components_of(streaming)) == {"vad", *LIVE}


def test_one_that_does_not_is_the_second_pass() -> None:
    options = parsed(decoder="deaf", live=True)
    assert (options.mode, options.of_first_pass().decoder) == ("two_pass", "wfst")
    with pytest.raises(OptionError, match="with mode streaming; sent: deaf"):
        parsed(decoder="deaf", mode="streaming", live=True)
