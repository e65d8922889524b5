import pytest

from conch.models.ctc.units import Characters, Subwords, greedy_text, units_from_dict

TEXTS = ["the cat sat on the mat", "the hat that the cat had", "don't"]


def test_characters():
    units = Characters()
    assert len(units.vocab) == 29
    assert "".join(units.vocab[index] for index in units.encode("don't go")) == "don't go"
    assert units.encode("é7") == []


def test_subwords_write_what_they_read():
    units = Subwords.trained(TEXTS, 30)
    assert units.vocab[0] == ""
    for text in TEXTS:
        ids = units.encode(text)
        assert 0 not in ids
        assert len(ids) < len(text)
        spread = [item for index in ids for item in (index, 0)]
        assert greedy_text(spread, units.vocab) == text


@pytest.mark.parametrize("units", [Characters(), Subwords.trained(TEXTS, 30)])
def test_units_survive_a_checkpoint(units):
    again = units_from_dict(units.to_dict())
    assert again.vocab == units.vocab
    assert again.stack == units.stack
    assert again.encode(TEXTS[0]) == units.encode(TEXTS[0])


def test_greedy_text():
    vocab = Characters.vocab
    assert greedy_text([], vocab) == ""
    assert greedy_text([0, 0], vocab) == ""
    assert greedy_text([1, 3, 3, 0, 3, 1, 0, 1, 4, 0, 1], vocab) == "aa b"
