"""A decoder of characters."""

from pathlib import Path
from typing import Any

import pytest
from ctc_export import exported

from conch.decoding.ngram.files import read_ngrams
from conch.decoding.units import Characters
from conch.graphs.build import GraphConfig, build_graph
from lab.training.ctc.model import CtcModel, CtcModelConfig

WORDS = "the quick brown fox jumps over lazy dog"


@pytest.fixture(scope="session")
def letters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return parameters of a decoder of characters: a small model's units, and a graph of words."""
    pytest.importorskip("onnx")
    folder: Path = tmp_path_factory.mktemp("letters")
    config = CtcModelConfig(
        vocab_size=len(Characters.vocab), model_size=16, num_heads=2, num_layers=1
    )
    words = WORDS.split()
    unigrams = "".join(f"-1.0\t{word}\n" for word in ("</s>", *words))
    (folder / "words.arpa").write_text(
        f"\\data\\\nngram 1={len(words) + 2}\n\n\\1-grams:\n-99\t<s>\n{unigrams}\n\\end\\\n"
    )
    table = read_ngrams(folder / "words.arpa")
    build_graph(folder / "words.fst", Characters(), table, config=GraphConfig(prune=0))
    model = exported(CtcModel(config).eval(), Characters(), folder)
    return {"model": str(model), "graph": str(folder / "words.fst")}
