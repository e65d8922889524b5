from pathlib import Path

import pytest

from conch.bench.manifest import Utterance
from conch.wire.errors import BenchError
from lab.names.figures import name_figures
from lab.names.selection import Names, frequent_words, names_of

FREQUENT = frozenset({"said", "went", "with", "came"})


def spoken(*texts: str) -> list[Utterance]:
    return [Utterance(Path(f"{place}.wav"), text) for place, text in enumerate(texts)]


DEV = spoken("HESTER PRYNNE SAID", "Uncas went with Magua", "it's 1912")
TRAIN = spoken("Uncas came", "POYSER AND SOAMES", "timaeus said")


def test_names_are_rare_words_and_distractors_are_in_no_reference():
    names = names_of(DEV, TRAIN, said=4, others=3, frequent=FREQUENT)
    assert {*names.said} <= {"hester", "prynne", "uncas", "magua", "nineteen", "twelve"}
    assert names.others == ("poyser", "soames", "timaeus")
    assert names == names_of(DEV, TRAIN, said=4, others=3, frequent=FREQUENT)
    assert set(names.hotwords.split(",")) == {*names.said, *names.others}


def test_too_few_rare_words_are_told():
    with pytest.raises(BenchError, match="--others 9: the manifest has 3 such rare words"):
        names_of(DEV, TRAIN, said=1, others=9, frequent=FREQUENT)


def test_frequent_words_are_those_of_the_language_model():
    words = frequent_words(1000)
    assert len(words) == 1000
    assert {"the", "and"} <= words


def test_names_and_other_words_are_counted_apart():
    names = Names(("prynne", "uncas"), ("soames",))
    pairs = [
        ("Hester Prynne spoke", "hester prin spoke"),
        ("Uncas went home", "Uncas went home Soames"),
        ("", "Soames"),
    ]
    found = name_figures(pairs, names)
    assert (found.said, found.found, found.recall) == (2, 1, 0.5)
    assert (found.words, found.errors, found.rest_wer) == (4, 1, 0.25)
    assert found.invented == 1
