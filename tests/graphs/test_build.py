"""The content of graphs, and wrong settings."""

import pytest
from graph_toys import ARPA, LETTERS, SUBWORDS, VOCAB, WORDS, ToyUnits

from conch.decoding.graph.fst_arrays import open_fst
from conch.decoding.ngram.files import read_ngrams
from conch.graphs.build import GraphConfig, build_graph
from conch.graphs.lexicon import own_spellings, read_lexicon, unit_spellings
from conch.wire.errors import ConfigError


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "toy.arpa"
    path.write_text(ARPA)
    return read_ngrams(path)


def test_the_report_tells_what_was_left_out(tmp_path, table):
    path = tmp_path / "g.fst"
    lexicon = (("a", "a"), ("all", "all"), ("lab", "lab"), ("bala", "bala"))
    steps = []
    config = GraphConfig(prune=0, max_words=2, max_order=2)
    report = build_graph(path, LETTERS, table, lexicon, config, steps.append)
    assert (report.words, report.without_spelling, report.unknown) == (2, 3, 1)
    assert report.ngrams == (8, 7, 3)
    assert report.kept_ngrams == (4, 3)
    assert any(step.startswith("composing 2 spellings") for step in steps)
    graph = open_fst(path)
    assert (len(graph.states), len(graph.arcs)) == (report.states, report.arcs)
    (_, units), (_, words) = graph.symbols
    assert tuple(units) == ("<eps>", "<blank>", " ", "a", "b", "l", "<end>")
    assert set(words) == {"<eps>", "<s>", "</s>", "a", "all"}
    assert not list(tmp_path.glob("*.partial"))


def test_limits_make_it_smaller(tmp_path, table):
    def arcs(**limits) -> int:
        return build_graph(
            tmp_path / "g.fst", LETTERS, table, None, GraphConfig(**{"prune": 0, **limits})
        ).arcs

    assert arcs(max_order=1) < arcs(max_order=2) < arcs()
    assert arcs(max_words=3) < arcs()
    assert arcs(prune=0.5) < arcs()


def test_more_words_are_in_whatever_the_limits(tmp_path, table):
    path = tmp_path / "g.fst"
    config = GraphConfig(prune=0, max_words=2)
    more_words = (("aba", "aba"), ("Bala", "bala"))
    report = build_graph(path, LETTERS, table, None, config, more_words=more_words)
    assert (report.words, report.added, report.kept_ngrams[0]) == (4, 1, 5)
    (_, _), (_, words) = open_fst(path).symbols
    assert set(words) == {"<eps>", "<s>", "</s>", "a", "all", "aba", "Bala"}


def test_a_dictionary_is_in_whatever_the_limits(tmp_path, table):
    path = tmp_path / "g.fst"
    config = GraphConfig(prune=0, max_words=1)
    report = build_graph(
        path,
        LETTERS,
        table,
        None,
        config,
        more_words=(("Bala", "bala"),),
        dictionary=(("aba", "aba"), ("Bala", "bala"), ("balla", "balla")),
    )
    assert (report.added, report.unknown) == (2, 0)
    (_, _), (_, words) = open_fst(path).symbols
    assert sorted(words) == ["</s>", "<eps>", "<s>", "Bala", "aba", "all", "balla"]


def test_words_that_cannot_be_written_are_left_out():
    assert own_spellings(("<s>", "a", "a.", "b-b", "ball", "é"), LETTERS) == (
        ("a", "a"),
        ("ball", "ball"),
    )
    assert len(own_spellings(WORDS, LETTERS)) == len(WORDS)


def test_words_are_written_with_units():
    lexicon = (("A", "a"), ("ball", "ball"))
    spelled = {
        units: [tuple(units.vocab[unit] for unit in item) for _, item in found]
        for units in (LETTERS, SUBWORDS)
        for found in [unit_spellings(lexicon, units)]
    }
    assert spelled[LETTERS] == [("a", " "), ("b", "a", "l", "l", " ")]
    assert spelled[SUBWORDS] == [(" a",), (" ba", "ll")]


def test_lexicon_lines_are_words_and_letters(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("ball\n\nBALL   ball\nAl\tall\nball\n")
    assert read_lexicon(path, VOCAB) == (("ball", "ball"), ("BALL", "ball"), ("Al", "all"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"words\.txt has no words"),
        (b"ball\nbell bell\n", r"words\.txt, line 2: 'e' in 'bell' is not in the model's"),
        (b"ball b a l l\n", r"line 1: a word and its letters without spaces"),
        (b"\xff\xfe", r"words\.txt is not UTF-8"),
    ],
)
def test_broken_lexica_are_refused(tmp_path, content, message):
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_lexicon(path, VOCAB)


def test_a_missing_lexicon_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.txt cannot be read: No such file"):
        read_lexicon(tmp_path / "none.txt", VOCAB)


@pytest.mark.parametrize(
    "vocab",
    [(), (" ", "a"), ("", "a", "b"), ("", " ", "a", "a")],
)
@pytest.mark.parametrize("lexicon", [None, (("a", "a"),)])
def test_other_vocabularies_are_refused(tmp_path, table, vocab, lexicon):
    with pytest.raises(ConfigError, match="vocabulary"):
        build_graph(tmp_path / "g.fst", ToyUnits(vocab), table, lexicon)


def test_no_common_word_is_refused(tmp_path, table):
    with pytest.raises(ConfigError, match="no word of the lexicon is in the language model"):
        build_graph(tmp_path / "g.fst", LETTERS, table, (("bb", "bb"),))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"prune": 1.0}, r"prune takes 0 up to, not including, 1; is: 1\.0"),
        ({"max_order": -1}, "max_order takes 0 or more; is: -1"),
        ({"word_bonus": float("inf")}, "word_bonus takes a finite number"),
        ({"oov_log_prob": 0.1}, r"oov_log_prob takes a number up to 0; is: 0\.1"),
    ],
)
def test_config_is_checked(values, message):
    with pytest.raises(ConfigError, match=message):
        GraphConfig(**values)
