"""Options of speech, and the answer's JSON."""

import re
from dataclasses import replace

import pytest

from conch import families
from conch.families import voices, voices_that_stand_for
from conch.wire.errors import OptionError
from conch.wire.result import Stage
from conch.wire.synthesis import (
    Spoken,
    SpokenSentence,
    SpokenWord,
    SynthesisOptions,
    joined,
    shares_of,
    synthesizer_of,
)


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


def test_a_mix_has_shares_of_its_voices() -> None:
    assert shares_of("hibari") == {"hibari": 1.0}
    assert shares_of("af_sky:0.4, af_bella:0.6") == {"af_sky": 0.4, "af_bella": 0.6}
    assert shares_of("af_sky,af_bella:3") == {"af_sky": 0.25, "af_bella": 0.75}
    assert shares_of("af_sky,af_sky") == {"af_sky": 1.0}
    assert synthesizer_of("af_sky,am_adam") is voices()["af_sky"]


def test_a_voice_of_several_has_speakers(monkeypatch: pytest.MonkeyPatch) -> None:
    several = replace(voices()["hibari"], has_speakers=True)
    monkeypatch.setattr(families, "_ADDED", {"crowd": several})
    assert shares_of("crowd#ann") == {"crowd": 1.0}
    assert synthesizer_of("crowd#ann") is several
    with pytest.raises(OptionError, match="sent: 'hibari#ann'"):
        shares_of("hibari#ann")


def test_names_that_others_know_are_voices() -> None:
    assert {shares_of(name).keys() <= voices().keys() for name in voices_that_stand_for()} == {True}
    assert not voices_that_stand_for().keys() & voices().keys()


@pytest.mark.parametrize(
    ("voice", "said"),
    [
        ("nobody", r"takes one of hibari, .*, or a mix such as .*; sent: 'nobody'"),
        ("af_sky,nobody:2", "sent: 'nobody'"),
        ("", "takes one of hibari"),
        ("af_sky:x", "takes a number as the share of a voice; sent: 'af_sky:x'"),
        ("af_sky:0,af_bella:1", "with shares above 0; sent: 'af_sky:0,af_bella:1'"),
        ("af_sky:nan", "with shares above 0"),
        ("af_sky:-1,af_bella:2", "with shares above 0"),
        ("af_sky,hibari", "voices of one model that can be mixed"),
        ("hibari:1,hibari:2", "voices of one model that can be mixed"),
    ],
)
def test_what_is_no_voice_is_refused(voice: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        shares_of(voice)


def test_a_mix_has_few_voices() -> None:
    kokoro = [name for name, item in voices().items() if item.mixes]
    assert len(shares_of(",".join(kokoro[:8]))) == 8
    with pytest.raises(OptionError, match="at most 8 voices"):
        shares_of(",".join(kokoro[:9]))
