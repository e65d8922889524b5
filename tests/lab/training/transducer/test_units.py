"""Texts to units and back."""

import pytest

from lab.training.transducer.units import learned_units, text_of, units_of

TEXTS = ["the cat sat on the mat", "it's the hat that the cat had", "a bat and a rat"]


@pytest.mark.parametrize("text", TEXTS)
def test_units_spell_their_text(text):
    tokenizer = learned_units(TEXTS, 32)
    units = units_of(tokenizer, text)
    assert set(units) <= set(range(2, 32))
    assert len(units) < len(text)
    assert text_of(tokenizer, units) == text
