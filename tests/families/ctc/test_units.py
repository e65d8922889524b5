import pytest

from conch.families.ctc.units import Characters, units_from_dict
from lab.training.ctc.units import learned_subwords

TEXTS = ["the cat sat on the mat", "the hat that the cat had", "don't"]


def test_characters():
    units = Characters()
    assert len(units.vocab) == 29
    assert "".join(units.vocab[index] for index in units.encode("don't go")) == "don't go"
    assert units.encode("é7") == []


@pytest.mark.parametrize("units", [Characters(), learned_subwords(TEXTS, 30)])
def test_units_survive_a_checkpoint(units):
    again = units_from_dict(units.to_dict())
    assert again.vocab == units.vocab
    assert again.stack == units.stack
    assert again.encode(TEXTS[0]) == units.encode(TEXTS[0])
