"""Trees of tokens by the graph of a toy, and of the real weights, against one text at a time."""

import numpy as np
import onnx
import onnxruntime
import pytest
from neural import needs_weights

gguf_toys = pytest.importorskip("gguf_toys", reason="gguf is not installed")

from conch.families.smollm2 import GRAPH  # noqa: E402
from conch.families.smollm2.gguf_model import convert_gguf  # noqa: E402
from conch.families.smollm2.model import (  # noqa: E402
    NeuralRescorer,
    NeuralRescorerConfig,
    TextInContext,
    TreeScorer,
    smollm2_folder,
)

TOKENS = gguf_toys.TOKENS
SEQUENCES = [
    [TOKENS[place] for place in (0, *places)]
    for places in ((5, 6, 7, 8), (5, 6, 9), (5, 6, 7, 8, 10, 11), (12, 5), (5, 6, 9))
]


class Watched:
    """A session that remembers how many tokens each call had."""

    def __init__(self, session):
        self._session, self.calls = session, []

    def run(self, outputs, feed):
        self.calls.append(feed["tokens"].size)
        return self._session.run(outputs, feed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("toys")
    gguf_toys.write_toy(place / "toy.gguf")
    end = gguf_toys.END_OF_TEXT
    for kind in ("int8", "float32"):
        convert_gguf(place / "toy.gguf", place / kind, quantization=kind, end_of_text=end)
    return place


@pytest.fixture
def scorer(folder):
    found = TreeScorer(folder / "int8" / GRAPH, TOKENS.index, 1)
    found._session = Watched(found._session)
    return found


def scored(scorer, sequences, most=512):
    return [item.log_probs for item in scorer.score_batch(sequences, max_batch_size=most)]


def test_a_tree_says_of_each_text_what_it_says_of_it_alone(scorer):
    alone = [scored(scorer, [sequence])[0] for sequence in SEQUENCES]
    scorer._session.calls.clear()
    together = scored(scorer, SEQUENCES)
    assert [*map(len, together)] == [len(sequence) - 1 for sequence in SEQUENCES]
    for found, expected in zip(together, alone, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)
    # Ten tokens, each once: 5 6 7 8 10 11, 9 and 12 5 behind the first.
    assert scorer._session.calls == [10]


def test_nothing_behind_a_text_or_beside_it_counts(scorer):
    short, long = SEQUENCES[0], SEQUENCES[2]
    (found,) = scored(scorer, [long])
    (expected,) = scored(scorer, [short])
    np.testing.assert_allclose(found[: len(expected)], expected, rtol=0, atol=1e-3)


def test_a_tree_has_at_most_so_many_tokens_or_one_text(scorer):
    expected = scored(scorer, SEQUENCES)
    scorer._session.calls.clear()
    for found, wanted in zip(scored(scorer, SEQUENCES, most=6), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-3)
    assert scorer._session.calls == [6, 7, 6]
    assert scored(scorer, []) == []


def test_int8_is_near_float32(folder):
    """Of CTranslate2, which has another implementation."""
    import ctranslate2

    exact = ctranslate2.Generator(str(folder / "float32"), compute_type="float32")
    wanted = [item.log_probs for item in exact.score_batch(SEQUENCES)]
    found = scored(TreeScorer(folder / "int8" / GRAPH, TOKENS.index, 1), SEQUENCES)
    difference = np.concatenate(found) - np.concatenate(wanted)
    assert np.abs(difference).max() < 0.1


def test_float32_comes_without_a_graph(folder):
    assert not (folder / "float32" / GRAPH).exists()
    onnxruntime.InferenceSession(folder / "int8" / GRAPH, providers=["CPUExecutionProvider"])
    assert onnx.load(folder / "int8" / GRAPH).graph.output[0].name == "log_probs"


@needs_weights
def test_real_weights_score_as_products_in_float32_do():
    texts = [
        TextInContext("Why did we lose the battle?"),
        TextInContext("Why did we lose the bottle?"),
        TextInContext("Why did we lose the battle of it?", "He asked again and again."),
        TextInContext("In 1912 there was none."),
        TextInContext(""),
    ]
    model = NeuralRescorer(NeuralRescorerConfig())
    assert isinstance(model._generator, TreeScorer)
    folder = smollm2_folder("int8")
    exact = NeuralRescorer(NeuralRescorerConfig(model=str(folder), compute_type="float32"))
    assert not isinstance(exact._generator, TreeScorer)
    assert np.abs(np.subtract(model.score(texts), exact.score(texts))).mean() < 2
