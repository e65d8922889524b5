"""Options out of the text of a query or a form."""

import pytest

from conch.wire.errors import OptionError
from conch.wire.option_values import options_of_text
from conch.wire.options import RecognitionOptions, all_options


def test_text_becomes_a_value_of_the_options_type() -> None:
    sent = {
        "nbest": "3",
        "rescore": "true",
        "vad": "0",
        "lm_weight": "1.5e-1",
        "endpoint_silence_ms": "+500",
        "word_bonus": "-2",
        "language": "de",
        "hotwords": "1",
        "channels": "2",
        "mode": "two_pass",
    }
    result = options_of_text(sent, all_options())
    assert result == {
        "nbest": 3,
        "rescore": True,
        "vad": False,
        "lm_weight": 0.15,
        "endpoint_silence_ms": 500,
        "word_bonus": -2.0,
        "language": "de",
        "hotwords": "1",
        "channels": 2,
        "mode": "two_pass",
    }
    assert [type(value) for value in result.values()] == [
        *(int, bool, bool, float, int, float, str, str, int, str)
    ]
    assert options_of_text({"channels": "split"}, all_options()) == {"channels": "split"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nbest", "three"),
        ("nbest", "3.0"),
        ("nbest", "٣"),
        ("nbest", "1" * 5000),
        ("rescore", "yes please"),
        ("lm_weight", "nan"),
        ("lm_weight", "inf"),
        ("lm_weight", "1,5"),
        ("decoder", "whisper"),
        ("channels", "both"),
    ],
)
def test_text_of_another_type_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(OptionError, match=f"option '{name}' takes .*; sent: '") as refused:
        options_of_text({name: text}, all_options())
    assert len(str(refused.value)) < 300


def test_an_empty_text_sets_nothing() -> None:
    sent = {"nbest": "", "itn": "", "speakers": " ", "hotwords": "", "mode": "", "rescore": "1"}
    assert options_of_text(sent, all_options()) == {"rescore": True}
    with pytest.raises(OptionError, match="unknown option 'nbets'"):
        options_of_text({"nbets": ""}, all_options())


def test_an_unknown_name_has_the_closest_one_in_its_message() -> None:
    with pytest.raises(OptionError, match="unknown option 'beamsize'; did you mean 'beam_size'"):
        options_of_text({"beamsize": "3"}, all_options())
    with pytest.raises(OptionError, match="did you mean 'encoding'"):
        options_of_text({"encodin": "pcm16"}, all_options(), others=("encoding",))


def test_ranges_are_left_to_the_options() -> None:
    options = options_of_text({"nbest": "0"}, all_options())
    with pytest.raises(OptionError, match="option 'nbest' takes an integer from 1"):
        RecognitionOptions.parse(options)
