"""Options of speech, and the answer's JSON."""

import re

import pytest

from conch.wire.errors import OptionError
from conch.wire.result import Stage
from conch.wire.synthesis import Spoken, SpokenSentence, SpokenWord, SynthesisOptions, joined


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"voice": "nobody"}, "option 'voice' takes one of hibari, af_"),
        ({"speed": 0.2}, "option 'speed' takes a number from 0.25 to 4; sent: 0.2"),
        ({"sped": 1}, "unknown option 'sped'; did you mean 'speed'?"),
        ({"sample_rate": 7999}, "takes 8000 to 48000 with format pcm_f32"),
        ({"sample_rate": 22_050, "format": "opus"}, "24000, 48000 with format opus"),
    ],
)
def test_a_wrong_option_is_named_with_its_range(sent: dict, said: str) -> None:
    with pytest.raises(OptionError, match=re.escape(said)):
        SynthesisOptions.parse(sent)


def test_numbers_of_clients_may_be_whole() -> None:
    assert SynthesisOptions.parse({"speed": 2, "sample_rate": 16_000}).speed == 2.0


def test_an_answer_is_what_was_written() -> None:
    sentence = SpokenSentence("Hi.", "hI.", 0.0, 0.5, (SpokenWord("Hi.", 0.1, 0.4),))
    spoken = Spoken(0.5, 24_000, "hibari", (sentence,), ("vocoder",), {"vocoder": Stage(1, 2.5)})
    assert Spoken.from_json(spoken.to_json()) == spoken
    later = sentence.later(1.0)
    assert (later.start, later.end, later.words[0].start) == (1.0, 1.5, 1.1)
    assert joined([spoken, Spoken(1.5, 24_000, "hibari", (later,))]).sentences == (sentence, later)


def test_what_comes_behind_other_audio_has_later_times() -> None:
    sentence = SpokenSentence("Hi.", "hai", 0.0, 0.5, (SpokenWord("Hi.", 0.1, 0.4),))
    result = Spoken(1.0, 24_000, "hibari", (sentence,)).later(2.25)
    assert (result.duration, result.sample_rate, result.voice) == (3.25, 24_000, "hibari")
    (moved,) = result.sentences
    assert (moved.start, moved.end, moved.words) == (2.25, 2.75, (SpokenWord("Hi.", 2.35, 2.65),))
