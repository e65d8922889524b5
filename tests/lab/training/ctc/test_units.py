from conch.decoding.units import Characters
from lab.training.ctc.units import greedy_text, learned_subwords

TEXTS = ["the cat sat on the mat", "the hat that the cat had", "don't"]


def test_subwords_write_what_they_read():
    units = learned_subwords(TEXTS, 30)
    assert units.vocab[0] == ""
    for text in TEXTS:
        ids = units.encode(text)
        assert 0 not in ids
        assert len(ids) < len(text)
        spread = [item for index in ids for item in (index, 0)]
        assert greedy_text(spread, units.vocab) == text


def test_greedy_text():
    vocab = Characters.vocab
    assert greedy_text([], vocab) == ""
    assert greedy_text([0, 0], vocab) == ""
    assert greedy_text([1, 3, 3, 0, 3, 1, 0, 1, 4, 0, 1], vocab) == "aa b"
