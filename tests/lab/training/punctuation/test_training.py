"""A handful of sentences, learned by heart, exported and written again."""

import pytest
import torch

from conch.families.punctuation.model import PunctuatorConfig
from conch.families.punctuation.punctuator import Punctuator
from lab.training.punctuation import evaluate, export, train
from lab.training.punctuation.data import batches, cased_forms, corpus_of, read_lines, vocabulary_of
from lab.training.punctuation.model import Config, Punctuation

pytest.importorskip("onnx")
# torch's exporter in Python announces its successor.
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning"
)

LINES = (
    "Why did we lose the battle, Mister McAllister?",
    "In May, the NASA people went to London.",
    "I don't know, but it was late.",
    "Yes.",
)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES * 3) + "\n")
    return path


def test_sentences_are_learned_by_heart(text, tmp_path, capsys):
    out, model = tmp_path / "run", tmp_path / "model.onnx"
    train.main(
        [
            *("--texts", str(text), "--out", str(out), "--steps", "60", "--batch-words", "96"),
            *("--unknown", "0", "--wrong", "0"),
        ]
    )
    export.main([str(out / "final.pt"), "--out", str(model)])
    assert "probabilities off by at most" in capsys.readouterr().out
    punctuator = Punctuator(PunctuatorConfig(model=str(model)))
    heard = [line.lower().translate(str.maketrans("", "", ",.?")) for line in LINES]
    assert [new for new, _ in punctuator.punctuate(heard)] == list(LINES)
    assert punctuator.punctuate(["why did we lose"])[0][0] == "Why did we lose"
    export.main([str(out / "final.pt"), "--out", str(tmp_path / "end.onnx"), "--end", "50"])
    closing = Punctuator(PunctuatorConfig(model=str(tmp_path / "end.onnx")))
    ((cut, _),) = closing.punctuate(["why did we lose"])
    assert cut[:-1] == "Why did we lose" and cut[-1] in ",.?"
    capsys.readouterr()
    evaluate.main(["--model", str(model), "--texts", str(text)])
    baseline, learned = capsys.readouterr().out.splitlines()[2:]
    assert "| baseline | 0.0 |" in baseline
    assert learned.endswith("| model | 100.0 | 100.0 | 100.0 | 100.0 | 100.0 |")


def test_the_same_seed_gives_the_same_batches(text):
    lines = read_lines([text])
    vocabulary = vocabulary_of(lines, 100)
    inside, capitals = cased_forms(lines)
    assert inside == {"mcallister": "McAllister"} and capitals == {"nasa"}
    corpus = corpus_of(lines, vocabulary, capitals)
    drawn = [next(batches(corpus, 192, 0.1, 0.1, seed)) for seed in (1, 1, 2)]
    for first, second in zip(drawn[0], drawn[1], strict=True):
        assert torch.equal(first, second)
    assert drawn[0].features.shape != drawn[2].features.shape or not torch.equal(
        drawn[0].features, drawn[2].features
    )


def test_what_is_out_of_reach_changes_nothing():
    torch.manual_seed(0)
    model = Punctuation(Config(), 50).eval()
    features = torch.randint(2, 50, (1, 90, 7), dtype=torch.int32)
    far = features.clone()
    far[:, 45 + model.config.reach + 1 :] = 3
    near = features.clone()
    near[:, 45 + model.config.reach :] = 3
    with torch.inference_mode():
        whole, changed, less = model(features), model(far), model(near)
    assert torch.equal(whole[:, 45], changed[:, 45])
    assert not torch.equal(whole[:, 45], less[:, 45])


def test_padding_changes_nothing():
    torch.manual_seed(0)
    model = Punctuation(Config(), 50).eval()
    features = torch.randint(2, 50, (1, 20, 7), dtype=torch.int32)
    padded = torch.nn.functional.pad(features, (0, 0, 0, 15))
    with torch.inference_mode():
        torch.testing.assert_close(model(padded)[:, :20], model(features))
