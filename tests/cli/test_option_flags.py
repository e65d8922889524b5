import pytest

from conch.cli.option_flags import parse_options
from conch.wire.errors import OptionError


def test_values_take_the_types_of_their_options() -> None:
    pairs = "rescore=true vad=False nbest=3 lm_weight=0.3 word_bonus=-1 language=en"
    assert parse_options(pairs.split()) == {
        "rescore": True,
        "vad": False,
        "nbest": 3,
        "lm_weight": 0.3,
        "word_bonus": -1.0,
        "language": "en",
    }
    assert parse_options([]) == {}


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("rescore", r"written name=value; sent: 'rescore'"),
        ("rescor=true", r"unknown option 'rescor'; did you mean 'rescore'\?"),
        ("rescore=yes", r"'rescore' takes a bool \(true or false\); sent: 'yes'"),
        ("nbest=many", r"'nbest' takes an integer from 1 to 128; sent: 'many'"),
        ("nbest=2.5", r"'nbest' takes an integer from 1 to 128; sent: '2.5'"),
        ("nbest=0", r"'nbest' takes an integer from 1 to 128; sent: 0"),
        ("lm_weight=nan", r"'lm_weight' takes a number from 0 to 10; sent: 'nan'"),
        ("decoder=magic", r"'decoder' takes one of .*; sent: 'magic'"),
    ],
)
def test_what_is_wrong_is_said(pair: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_options([pair])


def test_twice_is_a_mistake() -> None:
    with pytest.raises(OptionError, match="'nbest' is given twice"):
        parse_options(["nbest=2", "nbest=3"])
