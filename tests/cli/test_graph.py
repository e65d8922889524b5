import numpy as np
import pytest
from ctc_export import exported
from graph_toys import ARPA

from conch.cli import main
from conch.decoding.graph.search import DecodingGraph, WfstStream
from conch.decoding.units import Characters
from conch.families.ctc.vocabulary import read_vocabulary
from conch.wire.errors import ConfigError
from lab.training.ctc.model import CtcModel, CtcModelConfig
from lab.training.ctc.units import learned_subwords


@pytest.fixture
def arpa(tmp_path):
    path = tmp_path / "toy.arpa"
    path.write_text(ARPA)
    return path


def test_a_graph_is_made_and_described(tmp_path, arpa, capsys):
    out, lexicon = tmp_path / "toy.fst", tmp_path / "words.txt"
    lexicon.write_text("a\nball\nnever\nall awl\n")
    command = ["graph", "--arpa", str(arpa), "--lexicon", str(lexicon), "--out", str(out)]
    more_words = tmp_path / "names.txt"
    more_words.write_text("Bob\tbob\n")
    assert main([*command, "--more-words", str(more_words), "--prune", "0"]) == 0
    printed, progress = capsys.readouterr()
    assert "words     4, 1 of them unknown to the language model" in printed
    assert "1 of the lexicon that the language model does not know" in printed
    assert "1-grams   5 of 8" in printed
    assert "2-grams   5 of 7" in printed
    assert "reading toy.arpa" in progress
    assert "determinising" in progress
    assert {"ball", "Bob"} <= set(DecodingGraph(out, read_vocabulary("").texts).words)
    assert main([*command, "--dictionary", str(more_words), "--prune", "0"]) == 0
    assert "words     4, 1 of them unknown to the language model" in capsys.readouterr().out
    assert "Bob" in DecodingGraph(out, read_vocabulary("").texts).words


@pytest.mark.nightly  # half a minute
def test_the_words_of_the_shipped_graph_go_into_another(tmp_path, arpa):
    out = tmp_path / "more.fst"
    command = ["graph", "--arpa", str(arpa), "--out", str(out), "--prune", "0", "--shipped-words"]
    assert main(command) == 0
    words = set(DecodingGraph(out, read_vocabulary("").texts).words)
    assert {"ball", "nobody", "waverley"} <= words
    assert len(words) > 185_000


def test_a_graph_is_for_the_units_of_the_model_that_is_named(tmp_path, arpa):
    pytest.importorskip("onnx")
    units = learned_subwords(["a ball in the hall", "all the balls"], 30)
    config = CtcModelConfig(
        vocab_size=len(units.vocab), stack=2, model_size=16, num_heads=2, num_layers=1
    )
    model = exported(CtcModel(config).eval(), units, tmp_path)
    out = tmp_path / "g.fst"
    assert main(["graph", "--arpa", str(arpa), "--model", str(model), "--out", str(out)]) == 0
    graph = DecodingGraph(out, units.vocab)
    stream = WfstStream(graph)
    log_probs = np.full((6, len(units.vocab)), -9.0, np.float32)
    written = units.encode("a ball")
    log_probs[range(6), [*written, *[0] * (6 - len(written))]] = -0.01
    stream.advance(log_probs)
    assert stream.finish()[0].text == "a ball"
    with pytest.raises(ConfigError, match="make it again with `conch graph --model`"):
        DecodingGraph(out, Characters.vocab)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model", "none.onnx"], "the CTC model none.onnx does not exist"),
        (["--arpa", "none.arpa"], "the language model none.arpa does not exist"),
        (["--lexicon", "none.txt"], "the lexicon none.txt cannot be read"),
        (["--more-words", "none.txt"], "the lexicon none.txt cannot be read"),
        (["--dictionary", "none.txt"], "the lexicon none.txt cannot be read"),
    ],
)
def test_missing_files_are_reported(tmp_path, arpa, capsys, flags, message):
    assert main(["graph", "--arpa", str(arpa), "--out", str(tmp_path / "g.fst"), *flags]) == 1
    assert f"conch graph: {message}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--prune", "2"], "argument --prune: a number from 0 to below 1; got '2'"),
        (["--oov-log-prob", "1"], "argument --oov-log-prob: a number up to 0; got '1'"),
        (["--max-words", "0"], "argument --max-words: a whole number from 1; got '0'"),
        (["--out", "no/such/folder/g.fst"], "argument --out: not a file in a folder that exists"),
    ],
)
def test_wrong_usage_is_reported(tmp_path, refused, flags, message):
    assert message in refused("graph", "--out", str(tmp_path / "g.fst"), *flags)
