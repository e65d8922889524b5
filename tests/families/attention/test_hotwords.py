"""Hotwords in Whisper's text: near misses, and on plain functions what is called and written."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_components import PlainComponents
from plain_recognizer import recognized

from conch.families.attention.hotwords import (
    MOST_TRIED,
    NearMiss,
    bonus_of,
    fitting,
    near_misses,
    put_in,
)
from conch.wire.errors import OptionError
from conch.wire.hotwords import Hotword, hotwords_of

RATE = 16_000
NAMES = hotwords_of("Prynne, uncas:20, hester prynne, O'Malley, Timokhin", 10)


def written(text: str, names: str = "Prynne, uncas:20, hester prynne, O'Malley, Timokhin") -> set:
    found = near_misses(text, hotwords_of(names, 10))
    return {put_in(text, [miss]) for miss in found}


def test_what_is_close_in_letters_is_a_near_miss_with_the_users_spelling():
    assert "Uncas came." in written("Uncus came.")
    assert "said Prynne, at last" in written("said Prin, at last", "Prynne")
    assert "then O'Malley went" in written("then O'Mally went")


def test_a_name_may_be_heard_as_several_words_and_several_words_as_one():
    assert "he called Timokhin again" in written("he called Timok hin again")
    assert "the new york times" in written("the newyork times", "new york")


def test_a_phrase_without_capitals_takes_those_of_what_it_replaces():
    assert "Uncas and I" in written("Uncus and I")
    assert "an uncas" in written("an uncus")
    assert "Hester Prynne spoke" in written("Hester Prin spoke", "hester prynne")


def test_the_possessive_and_punctuation_stay():
    assert "Prynne's, they said" in written("Prinne's, they said", "Prynne")


def test_words_with_punctuation_between_them_are_no_name():
    assert "so new york is" not in written("so new. york is", "new york")


@pytest.mark.parametrize("text", ["", "...", "a b", "nothing alike here", "我用你好"])
def test_where_nothing_is_alike_there_is_nothing_to_try(text):
    assert near_misses(text, NAMES) == []


@pytest.mark.parametrize("jose", ["Jose\u0301", "Jos\u00e9"])
def test_an_accent_that_stands_alone_is_part_of_its_word(jose):
    assert written(f"said {jose} again", "Jos\u00e9") <= {"said Jos\u00e9 again"}
    assert "said José again" in written(f"said {jose}y again", "José")
    assert bonus_of(f"said {jose}", hotwords_of("jos\u00e9", 10)) > 0
    assert bonus_of("की", hotwords_of("का", 10)) == 0


@pytest.mark.parametrize("heard", ["Sime's", "Sime\u2019s", "Simes'", "Simes"])
def test_a_possessive_takes_the_place_of_a_whole_one(heard):
    assert "said Syme's egotism" in written(f"said {heard} egotism", "Syme's")
    (curly,) = near_misses(f"said {heard} egotism", hotwords_of("Syme\u2019s", 10))
    assert (curly.written, curly.tried) == ("Syme\u2019s", "Syme's")


@pytest.mark.parametrize(
    ("text", "name", "wanted"),
    [
        ("and Diness cat", "Dinah", "and Dinah's cat"),
        ("Captain Servidex ears", "Servadac", "Captain Servadac's ears"),
        ("Captain Servidex ears", "Servadac", "Captain Servadac's"),
        ("my cousin Hepzebuz, you", "Hepzibah", "my cousin Hepzibah's, you"),
        ("Simes' egotism", "Syme", "Syme's egotism"),
        ("DINESS CAT", "DINAH", "DINAH'S CAT"),
    ],
)
def test_a_possessive_may_be_heard_in_the_last_letters(text, name, wanted):
    assert wanted in written(text, name)


@pytest.mark.parametrize(("text", "name"), [("Simpsons", "Simpson"), ("said Uncas", "Uncas")])
def test_a_plural_and_a_name_in_s_are_no_possessive(text, name):
    assert not any("'s" in found for found in written(text, name))


def test_a_name_keeps_the_possessive_behind_it():
    assert "said Syme's egotism" in written("said Sime's egotism", "Syme")


def test_a_hotword_is_tried_for_two_words_more_than_its_own_at_most():
    names = "Timokhin, one two three four five six seven"
    assert "to Timokhin" in written("to tim ok hin", names)
    found = near_misses("t im ok hi nn", hotwords_of(names, 10))
    assert found and {len("t im ok hi nn"[miss.start : miss.end].split()) for miss in found} == {3}
    assert near_misses("one too three four five six seven", hotwords_of(names, 10)) == []


@pytest.mark.parametrize(
    "text",
    ["Conch，Triton、Oman：9", "Conch,Triton\nOman:9", "Conch،Triton, Oman :9"],  # noqa: RUF001
)
def test_phrases_are_separated_by_the_commas_of_any_script(text):
    assert hotwords_of(text, 8) == (
        Hotword("Conch", 8), Hotword("Triton", 8), Hotword("Oman", 9)
    )  # fmt: skip


def test_a_list_in_capitals_has_possessives_too():
    found = written("if a fellow's bad", "IF A FELLOW'S")
    assert "IF A FELLOW'S bad" in found
    assert all("FELLOW'S bad" in text for text in found)
    assert "said SYME'S egotism" in written("said Sime's egotism", "SYME'S")


def test_a_text_that_has_the_hotword_has_no_near_miss_there():
    assert near_misses("Prynne", hotwords_of("Prynne", 10)) == []


def test_only_the_closest_are_tried():
    names = hotwords_of(",".join(f"abcdef{letter}h" for letter in "abcdefghijklmnopqrst"), 10)
    found = near_misses("abcdefzh and abcdefxy", names)
    assert len(found) == MOST_TRIED
    assert {miss.start for miss in found} == {0}


def test_hotwords_in_a_text_add_their_weights_whatever_their_case():
    assert bonus_of("Hester Prynne, and Prynne", NAMES) == pytest.approx(10 + 2 * 6)
    assert bonus_of("prynnes", NAMES) == 0
    assert bonus_of("Timokhin, Timokhin, Timokhin!", NAMES) == pytest.approx(3 * 8)


def test_the_best_of_those_at_one_place_is_chosen_and_only_what_is_worth_it():
    misses = [
        NearMiss(0, 4, "one", "one", 6),
        NearMiss(2, 8, "two", "two", 6),
        NearMiss(9, 12, "three", "three", 6),
    ]
    assert fitting(misses, [-5, -4, -7]) == [1]
    assert fitting(misses, [-1, -4, -2]) == [0, 2]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80), st.lists(st.text("abcdé' ", min_size=1, max_size=12), max_size=6))
def test_outside_of_near_misses_the_text_stays(text, names):
    hotwords = [Hotword(name, 5.0) for name in names if name.strip()]
    for miss in near_misses(text, hotwords) if hotwords else []:
        assert 0 <= miss.start < miss.end <= len(text)
        new = put_in(text, [miss])
        assert new.startswith(text[: miss.start] + miss.written)
        assert new.endswith(text[miss.end :])


class Named(PlainComponents):
    """Its attention decoder hears `I met Prin` in every segment; texts score as given, else -20."""

    def __init__(self, **scores: float) -> None:
        super().__init__()
        self.scores = {text.replace("_", " "): score for text, score in scores.items()}
        self.scored: list[str] = []

    def attention_decoder(self, inputs, parameters):
        if "texts" in inputs:
            self.scored = [text.decode() for text in inputs["texts"]]
            scores = [self.scores.get(text, -20.0) for text in self.scored]
            return {"text_scores": np.array(scores, np.float32)}
        found = super().attention_decoder(inputs, parameters)
        if "hypotheses" in found:
            texts = ["I met Prin", "I met prim"]
            found["hypotheses"] = np.array([text.encode() for text in texts], object)
            found["scores"] = np.array([-2.0, -3.0], np.float32)
        return found


def recognize(components, **options):
    wav = np.concatenate([np.full(RATE, 0.5, np.float32), np.zeros(2 * RATE, np.float32)])
    return recognized(components, wav, **{"coverage": False, **options})


def test_a_hotword_is_written_if_it_loses_less_than_its_weight_allows():
    components = Named(I_met_Prin=-2.5, I_met_Prynne=-7.0)
    found = recognize(components, hotwords="Prynne:10", nbest=2)
    assert components.scored == ["I met Prin", "I met Prynne"]
    assert found.text == "I met Prynne"
    assert found.nbest[0].am_score == pytest.approx(-2.0 - 4.5)
    assert found.nbest[0].score == pytest.approx(-2.0 - 4.5 + 6)
    assert found.nbest[1].text == "I met Prin"


def test_a_list_in_capitals_is_tried_as_whisper_writes():
    components = Named(I_met_Prin=-2.5, I_met_Prynne=-5.0)
    assert recognize(components, hotwords="PRYNNE").text == "I met PRYNNE"
    assert components.scored == ["I met Prin", "I met Prynne"]


def test_a_hotword_that_loses_more_is_not_written():
    components = Named(I_met_Prin=-2.5, I_met_Prynne=-9.0)
    assert recognize(components, hotwords="Prynne").text == "I met Prin"
    assert recognize(components, hotwords="Prynne:20").text == "I met Prynne"


def test_a_hypothesis_with_the_hotword_goes_before_a_better_one():
    components = Named()
    assert recognize(components, hotwords="prim").text == "I met prim"


def test_without_anything_alike_no_text_is_scored():
    components = Named()
    assert recognize(components, hotwords="Timokhin").text == "I met Prin"
    assert components.scored == []


@pytest.mark.parametrize(
    ("hotwords", "told"),
    [
        ("a,,b", "none of them empty"),
        ("a:high", "takes a number after a colon; sent: 'a:high'"),
        ("a:101", "weights from 0 to 100; sent: 101.0"),
        ("a" * 101, "at most 100 characters"),
        (",".join(["a"] * 2001), "at most 2000 phrases; sent: 2001"),
    ],
)
def test_a_list_that_cannot_be_is_refused_before_anything_is_called(hotwords, told):
    components = Named()
    with pytest.raises(OptionError, match=told):
        recognize(components, hotwords=hotwords)
    assert components.calls == []
