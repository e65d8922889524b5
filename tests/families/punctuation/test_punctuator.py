"""The punctuator with the weights that ship: its contract, and what it writes."""

import re
import sys

import numpy as np
import onnxruntime
import pytest

from conch.component import Row, bytes_array
from conch.families.punctuation import model as model_module
from conch.families.punctuation.model import (
    CAPITAL,
    FEATURES,
    LOWER,
    UPPER,
    PunctuationModel,
    PunctuatorConfig,
    WordLabels,
    batches_of,
    windows_of,
    words_of,
)
from conch.families.punctuation.punctuator import (
    LONGEST_TEXT,
    Punctuator,
    is_bare,
    with_case,
    written,
)
from conch.wire.errors import ConfigError, InvalidRequestError

SPOKEN = (
    "well i don't know he said but if you ask me we should go to london on monday and see mister "
    "smith what do you think of that i am sure that it is the best thing we can do thank you"
)


@pytest.fixture(scope="module")
def punctuator() -> Punctuator:
    return Punctuator(PunctuatorConfig())


def row(text: str, language: str | None = None) -> Row:
    inputs = {"text": bytes_array([text])}
    return Row(inputs if language is None else {**inputs, "language": bytes_array([language])})


def answer(
    punctuator: Punctuator, text: str, language: str | None = None
) -> tuple[str, np.ndarray]:
    (found,) = punctuator([row(text, language)])
    assert found["text"].shape == (1,) and found["text"].dtype == np.object_
    assert found["spans"].dtype == np.int32 and found["spans"].shape[1:] == (4,)
    return found["text"][0].decode(), found["spans"]


def check(text: str, new: str, spans: np.ndarray) -> None:
    """Hold an answer against the contract of text steps."""
    rebuilt, done, new_done = [], 0, 0
    for start, end, new_start, new_end in spans.tolist():
        assert done <= start < end <= len(text) and new_done <= new_start < new_end <= len(new)
        assert text[done:start] == new[new_done:new_start], "equal outside of spans"
        assert text[start:end] != new[new_start:new_end]
        rebuilt += [text[done:start], new[new_start:new_end]]
        done, new_done = end, new_end
    assert "".join([*rebuilt, text[done:]]) == new
    if len(spans):
        assert text[done:] == new[new_done:]
        assert re.sub(r"[,.?](?=\s|$)", "", new).lower() == text.lower(), "the same letters"
        assert len(new.split()) == len(text.split())


def test_a_spoken_text_becomes_a_written_one(punctuator):
    text, spans = answer(punctuator, SPOKEN)
    check(SPOKEN, text, spans)
    assert text.startswith("Well, I don't know") and text.endswith(("thank you.", "Thank you."))
    assert "London" in text and "Mister Smith" in text and "I am sure" in text
    assert "of that?" in text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "a",
        "i",
        "yes",
        "?!",
        "- - -",
        "  two  spaces\tand\na line ",
        "in 1865 he paid 3.5 million dollars or 1,000,000 at 5:30",
        "(what) is \"this\" 'tis nobody's o'clock rock'n'roll",
        "the café of señor müller in łódź",
        "nasa's mcdonald and the fbi",
        "straße ﬁn \u0149 ǆ İstanbul ß",
        "\u200bzero\u2060width \u00adsoft",
        "e\u0301 combining ❤️ 👩‍👩‍👧 emoji",
        "word " * 300,
        "x" * 5000,
        "\x00\x01 control \x7f",
    ],
)
def test_any_text_keeps_its_letters(punctuator, text):
    new, spans = answer(punctuator, text)
    check(text, new, spans)
    for number in re.findall(r"\d[\d.,:]*\d", text):
        assert number in new


def test_texts_at_random_keep_the_contract(punctuator):
    random = np.random.default_rng(7)
    signs = np.array([*"abcdefghi iii ' -", "é", "ß", "İ", "漢", "ш", "٣", "\u0301", "😀", "5"])
    texts = ["".join(random.choice(signs, random.integers(0, 60))) for _ in range(300)]
    texts += [
        "".join(map(chr, codes))
        for codes in random.integers(1, sys.maxunicode, (100, 30))
        if not ((codes >= 0xD800) & (codes < 0xE000)).any()
    ]
    for text, (new, spans) in zip(texts, punctuator.punctuate(texts), strict=True):
        check(text, new, np.array(spans, np.int32).reshape(-1, 4))


@pytest.mark.parametrize(
    "text",
    [
        "Hello there.",
        "it was late, and we left",
        "he said: no",
        'he asked "why?" and left',
        "你好 世界",
        "привет как дела",
        "你好。 hello there",
    ],
)
def test_a_text_with_punctuation_or_of_another_alphabet_stays(punctuator, text):
    assert not is_bare(text)
    new, spans = answer(punctuator, text)
    assert (new, len(spans)) == (text, 0)


def test_abbreviations_are_no_punctuation(punctuator):
    text = "when i was young the U.S. sent Mr. smith to london at five p.m. and he met the Dr."
    assert is_bare(text)
    new, spans = answer(punctuator, text)
    assert new.startswith("When I was") and "Mr. Smith" in new and "London" in new
    assert not re.search(r"[.,?]{2}", new)
    assert len(spans) and new.lower().replace(",", "").split() == text.lower().split()


@pytest.mark.parametrize("language", ["de", "zh", "fr"])
def test_another_language_stays(punctuator, language):
    assert answer(punctuator, "how are you", language)[0] == "how are you"


@pytest.mark.parametrize("language", [None, "", "en", "en-US", "EN"])
def test_english_and_unknown_languages_are_written(punctuator, language):
    assert answer(punctuator, "how are you", language)[0] == "How are you?"


def test_capitals_that_are_there_stay(punctuator):
    text, _ = answer(punctuator, "we saw eBay and the NASA people in iceland")
    assert "eBay" in text and "NASA" in text and "Iceland" in text


def test_a_batch_is_its_rows(punctuator):
    texts = [SPOKEN, "how are you", "", "Hello.", SPOKEN * 5, "yes"]
    together = punctuator([row(text) for text in texts])
    for text, found in zip(texts, together, strict=True):
        alone, spans = answer(punctuator, text)
        assert found["text"][0].decode() == alone
        assert found["spans"].tolist() == spans.tolist()


def test_rows_of_several_requests_take_one_pass(punctuator, monkeypatch):
    session, calls = punctuator._model._session, []

    class Counted:
        def run(self, names, feed):
            calls.append(feed["features"].shape)
            return session.run(names, feed)

    monkeypatch.setattr(punctuator._model, "_session", Counted())
    punctuator([row("how are you"), row("Hello."), row("i am fine thanks", "en"), row("ja", "de")])
    assert calls == [(2, 4, FEATURES)]


def test_five_thousand_words_are_one_text(punctuator, monkeypatch):
    words = (SPOKEN.split() * 150)[:5000]
    text = " ".join(words)
    new, spans = answer(punctuator, text)
    check(text, new, spans)
    assert 150 < new.count(".") < 1000
    in_windows = punctuator._model.label([words])[0]
    monkeypatch.setattr(model_module, "_WINDOW", 10_000)
    at_once = punctuator._model.label([words])[0]
    assert (in_windows.marks == at_once.marks).all() and (in_windows.cases == at_once.cases).all()


def test_windows_cover_each_word_once_with_its_context():
    lens = [0, 1, 127, 128, 129, 1000]
    windows = list(windows_of(lens, 28))
    for text, words in enumerate(lens):
        own = [window for window in windows if window.text == text]
        assert [i for window in own for i in range(window.first, window.last)] == [*range(words)]
        for window in own:
            assert window.start == max(0, window.first - 28)
            assert window.end == min(words, window.last + 28)
    batches = list(batches_of([5000, 3, 3], 28))
    assert sum(map(len, batches)) == len(list(windows_of([5000, 3, 3], 28)))
    assert all(len(b) * (b[0].end - b[0].start) <= 2048 for b in batches)


def test_marks_and_cases_are_written_where_the_words_are():
    text = "so  (then) mcdonald left"
    labels = WordLabels(np.array([1, 3, 0, 2]), np.array([CAPITAL, LOWER, CAPITAL, LOWER]))
    new, spans = written(text, words_of(text), labels, {"mcdonald": "McDonald"})
    assert new == "So,  (then)? McDonald left."
    assert spans == [(0, 2, 0, 3), (4, 10, 5, 12), (11, 19, 13, 21), (20, 24, 22, 27)]


def test_a_sentence_begins_with_a_capital():
    labels = WordLabels(np.array([2, 0]), np.array([LOWER, LOWER]))
    assert written("yes no", words_of("yes no"), labels, {})[0] == "Yes. No"
    text = "the rest is the rest"
    labels = WordLabels(np.array([0, 0, 1, 0, 0]), np.full(5, CAPITAL))
    assert written(text, words_of(text), labels, {})[0] == "The Rest is, the Rest"


def test_an_amount_has_no_comma():
    text = "one dollar fifty five dollars fifty"
    labels = WordLabels(np.array([0, 1, 1, 1, 1, 2]), np.full(6, LOWER))
    assert written(text, words_of(text), labels, {})[0] == "One dollar fifty, five, dollars fifty."


@pytest.mark.parametrize(
    ("word", "case", "expected"),
    [
        ("usa", UPPER, "USA"),
        ("fbi's", UPPER, "FBI's"),
        ("i'm", LOWER, "I'm"),
        ("i\u2019m", LOWER, "I\u2019m"),
        ("3rd", CAPITAL, "3rd"),
        ("straße", UPPER, "straße"),
        ("школа", CAPITAL, "школа"),
        ("élan", CAPITAL, "Élan"),
        ("McDonald", LOWER, "McDonald"),
    ],
)
def test_a_word_in_its_case(word, case, expected):
    assert with_case(word, case, {}) == expected


def test_a_text_is_limited_and_is_utf8(punctuator):
    with pytest.raises(InvalidRequestError, match=f"at most {LONGEST_TEXT} bytes; sent: 1000001"):
        punctuator([row("a" * (LONGEST_TEXT + 1))])
    with pytest.raises(InvalidRequestError, match="take UTF-8"):
        punctuator([Row({"text": np.array([b"\xff\xfe"], np.object_)})])


def test_a_model_that_is_none_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"the punctuation model .*none\.onnx does not exist"):
        PunctuationModel(PunctuatorConfig(model=str(tmp_path / "none.onnx")))
    (tmp_path / "broken.onnx").write_bytes(b"no graph")
    with pytest.raises(ConfigError, match="cannot load the punctuation model"):
        PunctuationModel(PunctuatorConfig(model=str(tmp_path / "broken.onnx")))


def test_another_graph_is_refused(tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    other = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "other", [value], [other])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "other.onnx")
    onnxruntime.InferenceSession(tmp_path / "other.onnx")
    with pytest.raises(ConfigError, match=r"is not a graph of lab\.training\.punctuation\.export"):
        PunctuationModel(PunctuatorConfig(model=str(tmp_path / "other.onnx")))
