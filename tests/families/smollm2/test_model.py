"""Scores of SmolLM2, held against those of transformers."""

import csv
import json
import shutil
from itertools import groupby
from pathlib import Path

import pytest
from neural import needs_weights, noise_share

from conch.families.smollm2 import PACKAGE as SMOLLM2
from conch.families.smollm2 import model as neural_model
from conch.families.smollm2.model import NeuralRescorer, NeuralRescorerConfig, TextInContext
from conch.language import language_model_words
from conch.scoring.error_rates import word_errors
from conch.wire.errors import ConfigError
from conch.wire.nbest import ranked, tuned_weights
from conch.wire.result import Hypothesis

# By transformers 5.23.0 with AutoModelForCausalLM.from_pretrained(folder, gguf_file=…) in float32:
# the sum of the log probabilities of all tokens behind <|endoftext|>. The last test computes them.
REFERENCES = {
    "The quick brown fox jumps over the lazy dog.": -22.488,
    "He was not at all pleased with the answers, and said so.": -52.434,
    "In 1984 there were 23 people in the hall.": -44.863,
    "Tiger, tiger, burning bright, in the forests of the night.": -68.765,
    "What immortal hand or eye could frame thy fearful symmetry?": -84.764,
    "I'm interested only in the present.": -34.007,
    "I made you sit only in the present.": -50.665,
    "Yeah.": -16.521,
    "No, thank you very much indeed.": -32.524,
    "it is what it is": -24.923,
    "IT IS WHAT IT IS": -29.575,
    "Dr. Poyser's clock was slow by 17.5 minutes on May 3rd, 1912.": -107.474,
    "Fail again, fail better.": -45.151,
    "She sells sea shells by the sea shore, and the shells she sells are surely sea shells.": (
        -84.166
    ),
    "Der schnelle braune Fuchs springt über den faulen Hund.": -127.752,
    "Naïve café owners don\u2019t charge €3 for crème brûlée.": -87.019,
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002": -36.972,
    "two  spaces   and three": -45.77,
    "The committee, having met four times since the spring without coming to any decision, "
    "resolved that the question should be put to the members, each of whom was to answer in "
    "writing before the end of the month, and that those who did not answer should be counted as "
    "having agreed.": -178.871,
    "Colourless green ideas sleep furiously.": -68.419,
}
ODD = (
    *("0", "12 345,6", "3.14e-10", "$5,000.00!!", "1st 2nd 3rd"),
    *("a  b", "  a", "a  ", " ", "", "\n\n x\t y", "\u00a0nbsp\u2003em", "\x00\x1f"),
    *("don't I'll we've it'S", "--- …", "#hash_tag @me", "x" * 300),
    *(
        "naïve 北京 привет مرحبا हिन्दी",
        "👩\u200d👩\u200d👧 ok",
        "\u200b\ufeff",
        "e\u0301 é",
        "ﬁ Ǆ ß İ",
    ),
)
"""Transformers drops the rule for digits when it reads GGUF, which shows beside ² and Ⅷ alone."""

# The first test converts the weights, if nobody has, or waits for another process that does.
pytestmark = [needs_weights, pytest.mark.timeout(600)]


def config(**changes):
    return NeuralRescorerConfig(**{"compute_type": "float32", **changes})


def score(model, *texts):
    pairs = [text if isinstance(text, tuple) else (text, "") for text in texts]
    return model.score([TextInContext(text, context) for text, context in pairs])


@pytest.fixture(scope="module")
def folder():
    """The shipped weights in int8, which others need too: products are of float32 all the same."""
    return neural_model.smollm2_folder("int8")


@pytest.fixture(scope="module")
def model(folder):
    return NeuralRescorer(config(model=str(folder)))


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """The model of weights in float32, which nobody else needs."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield NeuralRescorer(config(model=str(neural_model.smollm2_folder("float32"))))
    shutil.rmtree(cache)


@pytest.mark.nightly
def test_scores_are_those_of_transformers(exact):
    assert score(exact, *REFERENCES) == pytest.approx(list(REFERENCES.values()), abs=0.01)


def test_int8_chooses_texts_as_float32_does():
    """The lists are Whisper's of LibriSpeech dev, the ones of which float32 finds a better text.

    int8 scores depend on the processor by some nats: on the library that multiplies, and on whether
    16-bit sums saturate for want of VNNI. The choice must not depend on it.
    """
    with (Path(__file__).parent / "hypotheses.tsv").open() as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    exact = [float(row["lm_score"]) for row in rows]
    quantized = score(NeuralRescorer(NeuralRescorerConfig()), *(row["text"] for row in rows))
    assert quantized != pytest.approx(exact, abs=0.01), "it is not int8"

    def errors(lm_scores, weights):
        total, differences = 0, []
        scored = groupby(zip(rows, lm_scores, strict=True), lambda item: item[0]["reference"])
        for reference, items in scored:
            nbest = [
                Hypothesis(
                    row["text"],
                    float(row["am_score"]),
                    float(row["am_score"]),
                    lm_score,
                    len(language_model_words(row["text"])),
                )
                for row, lm_score in items
            ]
            total += word_errors(reference, ranked(nbest, weights)[0].text).errors
            differences += [item.lm_score - nbest[0].lm_score for item in nbest[1:]]
        return total, differences

    weights = tuned_weights("attention", frozenset({"neural"}))
    (unscored, _) = errors(exact, tuned_weights("attention", frozenset()))
    (by_float, wanted), (by_int8, found) = errors(exact, weights), errors(quantized, weights)
    assert unscored - by_float >= len({row["reference"] for row in rows}) == 12
    # More than half of what float32 gains, and more signal than noise.
    assert unscored - by_int8 > (unscored - by_float) / 2
    assert noise_share(found, wanted) < 0.5


def test_a_batch_scores_as_one_text_does(model):
    texts = [*list(REFERENCES)[::4], ""]
    alone = [score(model, text)[0] for text in texts]
    assert score(model, *texts) == pytest.approx(alone, abs=1e-3)
    assert score(model) == []


def test_equal_texts_are_scored_once(model, monkeypatch):
    scored = []

    class Watched:
        def score_batch(self, rows, **options):
            scored.extend(rows)
            return generator.score_batch(rows, **options)

    generator = model._generator
    monkeypatch.setattr(model, "_generator", Watched())
    one, other, again = score(model, "Yeah.", ("Yeah.", "Are you sure?"), "Yeah.")
    assert one == again != other
    assert len(scored) == 2


def test_a_context_changes_the_score_to_that_of_the_joint_texts_end(model):
    start, end = "He was not at all pleased with", "the answers, and said so."
    alone, in_context, whole, before = score(
        model, end, (end, start), f"{start} {end}", (start, "")
    )
    assert in_context == pytest.approx(whole - before, abs=1e-3)
    assert in_context > alone + 5


def test_a_text_after_a_paragraph_begins_the_next_one(model):
    prompt, text = "On pensions and taxes.\n\n", "He said so."
    in_paragraph, in_sentence, whole = score(
        model, (text, prompt), (text, prompt.strip()), f"{prompt}{text}"
    )
    # The line ends alone, which end the prompt, are no text that can be scored.
    (started,) = score(model, prompt.strip())
    assert whole - started < in_paragraph
    assert abs(in_paragraph - in_sentence) > 0.1


def test_spaces_around_texts_do_not_count(model):
    plain, spaced = score(model, ("and said so.", "He wept"), (" and said so. ", "He wept  "))
    assert plain == pytest.approx(spaced, abs=1e-3)


def test_only_the_last_words_of_a_context_count(folder, model):
    short = NeuralRescorer(config(model=str(folder), max_context_tokens=4))
    text = "and said so."
    long, tail, cut = score(short, (text, "He was there. He had wept"), (text, "He had wept"), text)
    assert long == pytest.approx(tail, abs=1e-3)
    assert abs(long - cut) > 1
    inside, word = score(short, (text, "antidisestablishmentarianism it"), (text, "it"))
    assert inside == pytest.approx(word, abs=1e-3)
    (nothing,) = score(short, (text, "antidisestablishmentarianism"))
    assert nothing == pytest.approx(cut, abs=1e-3)
    without = NeuralRescorer(config(model=str(folder), max_context_tokens=0))
    assert score(without, (text, "He had wept")) == pytest.approx(score(model, text), abs=1e-3)


def test_an_empty_text_has_the_score_of_the_end(model):
    nothing, spaces, after, unfinished = score(
        model, "", "  ", ("", "He said so."), ("", "He said so to the")
    )
    assert nothing == pytest.approx(spaces, abs=1e-3)
    assert -30 < nothing < 0
    assert unfinished < after < 0


def test_a_long_text_is_scored_in_windows_after_the_end_of_the_one_before(folder, model):
    long = " ".join(list(REFERENCES)[:4])
    narrow = NeuralRescorer(config(model=str(folder), max_batch_tokens=34, max_context_tokens=16))
    windows = list(narrow._windows(TextInContext(long)))
    tokens = model._encoded(long).tokens
    assert len(windows) == -(-len(tokens) // 17) > 2
    assert [token for _, window in windows for token in window] == tokens
    assert all(len(prompt) + len(window) <= 34 for prompt, window in windows)
    assert windows[1][0] == ["<|endoftext|>", *tokens[1:17]]
    (whole,), (parts,) = score(model, long), score(narrow, long)
    assert parts == pytest.approx(whole, rel=0.1)
    # A caller may send any length.
    (longer,) = score(narrow, long * 3)
    assert longer < 1.5 * whole


def test_another_start_token_gives_other_scores(folder, model):
    chat = NeuralRescorer(config(model=str(folder), start_token="<|im_start|>"))
    assert score(chat, "Yeah.") != score(model, "Yeah.")
    with pytest.raises(ConfigError, match=r"start_token .* must be in its vocabulary; is: '<s>'"):
        NeuralRescorer(config(model=str(folder), start_token="<s>"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_context_tokens": -1}, "max_context_tokens must be at least 0, .* are: -1 and 512"),
        ({"max_batch_tokens": 129}, r"2 \(max_context_tokens \+ 1\) = 386; are: 192 and 1"),
        ({"compute_type": "int4"}, "compute_type must be auto or one of int8, .*; is: 'int4'"),
        ({"model": "/no/such/folder"}, "'/no/such/folder' .*: it has no model.bin"),
    ],
)
def test_a_parameter_that_cannot_work_is_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        NeuralRescorer(config(**changes))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "{}", "tokenizer.json cannot be read"),
        ("config.json", "[", "config.json cannot be read"),
        ("config.json", json.dumps({"bos_token": ""}), "start_token .* is: ''"),
        ("model.bin", "", "cannot load .* on cpu with compute type float32"),
    ],
)
def test_a_broken_folder_is_named(folder, tmp_path, name, content, message):
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / name).unlink()
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=message):
        NeuralRescorer(config(model=str(tmp_path)))


def test_the_compute_type_says_how_the_shipped_weights_are_kept(monkeypatch, folder):
    asked = []
    monkeypatch.setattr(
        neural_model, "smollm2_folder", lambda quantization: asked.append(quantization) or folder
    )
    for compute_type in ("auto", "int8_float32", "float32"):
        NeuralRescorer(NeuralRescorerConfig(compute_type=compute_type))
    assert asked == ["int8", "int8_float32", "float32"]


@pytest.mark.nightly
def test_transformers_agrees(exact):
    """Skipped without transformers and accelerate, of which Conch has no need."""
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    pytest.importorskip("accelerate")
    source = SMOLLM2.folder, neural_model.WEIGHTS
    tokenizer = transformers.AutoTokenizer.from_pretrained(source[0], gguf_file=source[1])
    network = transformers.AutoModelForCausalLM.from_pretrained(
        source[0], gguf_file=source[1], dtype=torch.float32
    ).eval()
    for text in (*REFERENCES, *ODD):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert exact._encoded(text).ids == ids
        if text in REFERENCES:
            with torch.no_grad():
                logits = network(torch.tensor([[0, *ids]])).logits[0].double()
            log_probs = logits.log_softmax(-1)[range(len(ids)), ids]
            assert REFERENCES[text] == pytest.approx(log_probs.sum().item(), abs=0.001)
