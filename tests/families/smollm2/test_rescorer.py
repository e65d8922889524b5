"""The neural rescorer as a component, and the form in which it scores texts."""

import doctest

import numpy as np
import pytest
from neural import needs_weights

from conch.component import Row, bytes_array
from conch.families.smollm2 import model
from conch.families.smollm2.model import (
    NeuralRescorer,
    NeuralRescorerConfig,
    as_sentence,
    from_next_word,
)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", ""),
        ("  ", "  "),
        ("so i said i'm not here", "So I said I'm not here."),
        ("'twas brillig", "'Twas brillig."),
        ("élan vital", "Élan vital."),
        ("a well-known fact", "A well-known fact."),
        ("in 1912", "In 1912."),
        ("it's nice, isn't it", "it's nice, isn't it"),
        ("they left.", "they left."),
        ("Dr poyser left", "Dr poyser left"),
        ("1912", "1912"),
        ("\u4f60\u597d", "\u4f60\u597d"),
    ],
)
def test_what_ctc_writes_becomes_a_sentence_and_nothing_else_does(text, written):
    assert as_sentence(text) == written


@pytest.mark.parametrize(
    ("text", "place", "rest"),
    [
        ("one two", 0, "one two"),
        ("one two", 1, "two"),
        ("one two", 3, "two"),
        ("one two", 4, "two"),
        ("one two", 5, ""),
        ("one\n two", 2, "two"),
        ("", 0, ""),
    ],
)
def test_a_context_is_cut_before_a_word(text, place, rest):
    assert from_next_word(text, place) == rest


def test_the_examples_hold():
    found = doctest.testmod(model)
    assert found.attempted > 2 and not found.failed


@pytest.fixture(scope="module")
def component():
    return NeuralRescorer(NeuralRescorerConfig())


def row(*texts, context=None):
    inputs = {"hypotheses": bytes_array(texts)}
    return Row(inputs if context is None else inputs | {"context": bytes_array([context])})


@needs_weights
def test_scores_each_text_of_each_row(component):
    texts = ("Why did we lose the battle?", "Why did we lose the bottle?", "")
    first, second, nothing = component([row(*texts), row("In 1912."), row()])
    assert first["num_words"].tolist() == [6, 6, 0] and second["num_words"].tolist() == [3]
    assert first["num_words"].dtype == np.int32 and first["lm_scores"].dtype == np.float32
    battle, bottle, empty = first["lm_scores"]
    assert bottle < battle < 0 and -30 < empty < 0
    assert nothing["lm_scores"].shape == nothing["num_words"].shape == (0,)


@needs_weights
def test_a_rows_context_is_its_own(component):
    text = "And fail better."
    plain, after, other = component(
        [
            row(text),
            row(text, context="Try again. Fail again."),
            row(text, context="The shop sells bread."),
        ]
    )
    assert after["lm_scores"] > plain["lm_scores"] + 1
    assert after["lm_scores"] > other["lm_scores"] + 1
    without, empty = component([row(text), row(text, context="")])
    assert empty["lm_scores"] == without["lm_scores"]


@needs_weights
def test_text_and_context_of_ctc_are_scored_as_sentences(component):
    ctc, sentence = component(
        [
            row("then i shall fail better", context="try again"),
            row("Then I shall fail better.", context="Try again."),
        ]
    )
    assert ctc["lm_scores"] == sentence["lm_scores"]
    assert ctc["num_words"] == sentence["num_words"] == [5]
