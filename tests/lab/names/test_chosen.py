from pathlib import Path
from types import SimpleNamespace

import pytest

from conch.scoring.manifest import ManifestEntry
from lab.names.benchmark import NamesBenchmark, listed, some_of
from lab.names.chosen import Names, chosen_names

WORDS = {"the", "tree", "spoke", "went", "home", "labor"}


def said(*texts: str) -> list[ManifestEntry]:
    return [ManifestEntry(Path(f"{place}.wav"), text) for place, text in enumerate(texts)]


def test_names_are_words_that_training_and_dictionary_lack() -> None:
    spoken = said("VERLOC SPOKE TO WINNIE'S TREES", "POYSER LABOURS", "AVA WENT HOME")
    training = said("Winnie went home.", "Montesinos and Merlin spoke.")
    names = chosen_names(spoken, training, WORDS.__contains__, 10, 10)
    assert names == Names(("poyser", "verloc"), ("merlin", "montesinos"))
    assert names.hotwords == "Merlin,Montesinos,Poyser,Verloc"
    assert names.prompt == "Merlin, Montesinos, Poyser, Verloc."
    assert chosen_names(spoken, training, WORDS.__contains__, 1, 1) == chosen_names(
        spoken, training, WORDS.__contains__, 1, 1
    )


def test_half_of_a_subset_has_names_as_long_as_there_are() -> None:
    spoken = said(*(f"a b {name}" for name in ("verloc", "x", "y", "poyser", "z", "w")))
    names = Names(("poyser", "verloc"), ())
    texts = [item.text for item in some_of(spoken, names, 3)]
    assert sum("verloc" in text or "poyser" in text for text in texts) == 2
    assert len(texts) == 3
    assert len(some_of(spoken, names, 5)) == 5
    assert len(some_of(spoken, names, None)) == 6


def test_names_of_the_graph_are_left_out_if_asked(tmp_path) -> None:
    pytest.importorskip("spylls")
    manifest = tmp_path / "manifest.tsv"
    rows = ["a.wav\tdev\tVERLOC MEETS MARILLA", "b.wav\ttrain\tBELGIOJOSO MEETS WAVERLEY"]
    manifest.write_text("\n".join(["path\tsplit\ttext", *rows]) + "\n")
    # Its own dictionary leaves files open.
    known = SimpleNamespace(lookup={"meets"}.__contains__)
    words = frozenset({"marilla", "waverley"})

    def found(**settings) -> Names:
        return listed(NamesBenchmark(manifest=manifest, **settings), lambda: known, lambda: words)

    assert found() == Names(("marilla", "verloc"), ("belgiojoso", "waverley"))
    assert found(unlisted=True) == Names(("verloc",), ("belgiojoso",))
