"""Which models of a server have names of their own, and what a request may ask of them."""

import pytest

from conch.wire.errors import OptionError
from conch.wire.named_models import named_models, with_its_decoder
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
