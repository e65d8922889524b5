import pytest

from conch.errors import OptionError
from conch.options import RecognitionOptions


def test_no_parameters_give_the_defaults():
    assert RecognitionOptions.parse({}) == RecognitionOptions()


def test_numbers_become_the_type_of_their_option():
    options = RecognitionOptions.parse({"lm_weight": 1, "nbest": 3, "rescore": True})
    assert isinstance(options.lm_weight, float)
    assert (options.lm_weight, options.nbest, options.rescore) == (1.0, 3, True)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"nbst": 2}, "unknown option 'nbst'; did you mean 'nbest'?"),
        ({"colour": 2}, "unknown option 'colour'; the options are mode, "),
        ({"nbest": 0}, "option 'nbest' takes an integer from 1 to 32; sent: 0"),
        ({"nbest": 2.0}, "option 'nbest' takes an integer from 1 to 32; sent: 2.0"),
        ({"nbest": True}, "option 'nbest' takes an integer from 1 to 32; sent: True"),
        ({"nbest": 6}, "option 'nbest' takes at most beam_size (5); sent: 6"),
        (
            {"max_segment_s": 2, "vad_pad_ms": 1000},
            "option 'max_segment_s' takes at least four times vad_pad_ms (1000 ms); sent: 2",
        ),
        ({"lm_weight": "0.5"}, "option 'lm_weight' takes a number from 0 to 10; sent: '0.5'"),
        ({"lm_weight": float("nan")}, "option 'lm_weight' takes a number from 0 to 10; sent: nan"),
        ({"rescore": 1}, "option 'rescore' takes a bool (true or false); sent: 1"),
        ({"mode": "fast"}, "option 'mode' takes one of auto, offline; sent: 'fast'"),
        ({"deadline_ms": -1}, "option 'deadline_ms' takes an integer from 0 to 86400000; sent: -1"),
        ({"language": 7}, "option 'language' takes a string; sent: 7"),
    ],
)
def test_a_wrong_option_is_named_with_what_it_takes_and_what_was_sent(parameters, message):
    with pytest.raises(OptionError) as error:
        RecognitionOptions.parse(parameters)
    assert str(error.value).startswith(message)


def test_a_long_value_is_not_echoed_whole():
    with pytest.raises(OptionError) as error:
        RecognitionOptions.parse({"mode": "x" * 10_000})
    assert len(str(error.value)) < 200


def test_a_segment_may_be_shorter_than_the_padding_where_there_is_none():
    with pytest.raises(OptionError, match="'max_segment_s' takes at least four times vad_pad_ms"):
        RecognitionOptions.parse({"max_segment_s": 1})
    assert RecognitionOptions.parse({"max_segment_s": 1, "vad": False}).max_segment_s == 1.0
