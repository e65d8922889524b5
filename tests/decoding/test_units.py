import pytest

from conch.decoding.units import Characters, Symbols, units_from_dict
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


def symbols_of(units, stack: int = 2) -> Symbols:
    """Return the same units as an export has them."""
    pieces = [text.replace(" ", "▁") for text in units.vocab[1:]]
    return Symbols(["<blk>", *pieces], stack)


@pytest.mark.parametrize("size", [16, 24, 60])
def test_symbols_are_cut_as_by_the_method_that_learned_them(size):
    units = learned_subwords(TEXTS, size)
    found = symbols_of(units)
    assert found.vocab == units.vocab
    for text in (*TEXTS, "that tot hen", "", "x7 the"):
        assert found.encode(text) == units.encode(text)
    again = units_from_dict(found.to_dict())
    assert (again.vocab, again.stack) == (found.vocab, 2)
    assert again.encode(TEXTS[0]) == units.encode(TEXTS[0])


@pytest.mark.parametrize(
    ("symbols", "text", "written"),
    [
        (["<pad>", "<s>", " ", "A", "B", "'"], "ab b'a", ["A", "B", " ", "B", "'", "A"]),
        (["<blk>", "a", "'"], "a\u2019", ["a", "'"]),
        (["<blk>", "a", "'", "\u2019"], "a\u2019", ["a", "\u2019"]),
        (["<blk>", "<unk>", "▁THE", "▁", "T", "H", "E"], "the t", [" THE", " ", "T"]),
        (["<blk>", "<unk>", "你", "好"], "你好 x", ["你", "好"]),
        (["<blk>", "▁Be", "r", "▁b", "e"], "Ber be", [" Be", "r", " b", "e"]),
    ],
)
def test_symbols_write_letters_in_their_case(symbols, text, written):
    units = Symbols(symbols, 1)
    assert [units.vocab[unit] for unit in units.encode(text)] == written
