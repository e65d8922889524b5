import pytest

from conch.scoring.error_rates import (
    Metric,
    Scoring,
    accuracy,
    language_of,
    number,
    percent,
    table,
    word_error_rate,
    word_errors,
)

GERMAN = Scoring.of("auto", "de")


@pytest.mark.parametrize(
    ("reference", "hypothesis", "errors", "words"),
    [
        ("the cat sat", "the cat sat", 0, 3),
        ("the cat sat", "the bat sat", 1, 3),  # substitution
        ("the cat sat", "the cat", 1, 3),  # deletion
        ("the cat sat", "the cat sat down", 1, 3),  # insertion
        ("the cat sat", "", 3, 3),
        # The normaliser: case, punctuation, spelling, numbers, fillers.
        ("MISTER GREY LIKES COLOUR", "Mr. Gray likes color.", 0, 4),
        ("twenty one people", "21 people!", 0, 2),
        ("um yes", "Yes.", 0, 1),
    ],
)
def test_wer_by_hand(reference: str, hypothesis: str, errors: int, words: int) -> None:
    assert word_error_rate([reference], [hypothesis]) == pytest.approx(errors / words, abs=1e-6)


def test_wer_pools_words_and_does_not_average_utterances() -> None:
    references = ["one", "the cat sat on the mat here now today"]
    hypotheses = ["two", "the cat sat on the mat here now today"]
    assert word_error_rate(references, hypotheses) == pytest.approx(1 / 10)


def test_wer_without_a_reference_is_unknown_not_perfect() -> None:
    assert word_error_rate([], []) is None
    assert word_error_rate(["", " "], ["something", ""]) is None
    # Nothing is left of it after the normaliser.
    assert word_error_rate(["[noise]"], ["something"]) is None


def test_wer_leaves_out_utterances_that_nobody_wrote_down() -> None:
    assert word_error_rate(["", "a cat sat here"], ["noise", "a cat sat there"]) == 0.25


@pytest.mark.parametrize(
    ("metric", "language", "title"),
    [
        ("auto", "en", "WER, Whisper's English normaliser"),
        ("auto", "de", "WER, Whisper's basic normaliser"),
        ("auto", "zh", "CER, Whisper's basic normaliser, in simplified characters"),
        ("auto", "yue", "CER, Whisper's basic normaliser, in simplified characters"),
        ("auto", "ja", "CER, Whisper's basic normaliser"),
        ("cer", "en", "CER, Whisper's English normaliser"),
        ("wer", "th", "WER, Whisper's basic normaliser"),
    ],
)
def test_the_language_chooses_what_counts_and_the_normaliser(
    metric: Metric, language: str, title: str
) -> None:
    assert Scoring.of(metric, language).title == title


@pytest.mark.parametrize(
    ("known", "language"),
    [
        (("", "auto", ""), "en"),
        (("", "auto", "ja"), "ja"),
        (("zh-TW", "en"), "zh"),
        (("", "PT_br"), "pt"),
    ],
)
def test_the_first_known_language_holds(known: tuple[str, ...], language: str) -> None:
    assert language_of(*known) == language


@pytest.mark.parametrize(
    ("reference", "hypothesis"),
    [
        ("今天天气很好。", "今天 天气 真好"),
        ("「東京」に行きます。", "東京へ行きます"),
        ("สวัสดีครับ", "สวัสดี"),
    ],
)
def test_characters_are_those_of_jiwer_without_spaces(reference: str, hypothesis: str) -> None:
    jiwer = pytest.importorskip("jiwer")
    basic = pytest.importorskip("whisper_normalizer.basic").BasicTextNormalizer()
    texts = ["".join(basic(text).split()) for text in (reference, hypothesis)]
    result = word_errors(reference, hypothesis, Scoring.of("auto", "zh"))
    assert result.words == len(texts[0])
    assert result.wer == pytest.approx(jiwer.cer(*texts), abs=1e-6)


@pytest.mark.parametrize(
    ("language", "errors"), [("zh", 0), ("yue", 0), ("ja", 5)], ids=["zh", "yue", "ja"]
)
def test_traditional_and_simplified_chinese_are_alike(language: str, errors: int) -> None:
    pytest.importorskip("wetext")
    scoring = Scoring.of("auto", language)
    result = word_errors("他的头发后来变白。", "他的頭髮後來變白", scoring)
    assert result.words == 8
    assert result.errors == errors
    assert word_errors("皇后 GPT-4", "皇后 GPT 4", scoring).errors == 0


def test_traditional_characters_that_simplified_words_have_too_are_alike() -> None:
    pytest.importorskip("wetext")
    chinese = Scoring.of("auto", "zh")
    assert word_errors("听着音乐由于乾隆", "聽著音樂由於乾隆", chinese).errors == 0
    # 著名 is simplified, and stays one with itself.
    assert word_errors("著名", "著名", chinese).errors == 0


def test_words_of_other_languages_are_those_of_jiwer() -> None:
    jiwer = pytest.importorskip("jiwer")
    result = word_errors("Zwölf Boxkämpfer, jagen VIKTOR!", "zwölf boxkämpfer jagten", GERMAN)
    assert result.wer == jiwer.wer("zwölf boxkämpfer jagen viktor", "zwölf boxkämpfer jagten")
    # The English normaliser would write 21.
    assert word_errors("twenty one", "21", GERMAN).errors == 2


def test_words_and_characters_are_never_added_up() -> None:
    result = accuracy(
        [
            ("read", word_errors("a cat sat here", "a cat sat there")),
            ("talk", word_errors("今天天气", "今天天", Scoring.of("auto", "zh"))),
        ]
    )
    assert (result.wer, result.reference_words, result.wer_by_source) == (0.25, 4, {"read": 0.25})
    assert (result.cer, result.cer_by_source) == (0.25, {"talk": 0.25})
    assert result.character_errors is not None
    assert result.character_errors.reference_characters == 4
    assert result.character_errors.deletions == 1
    assert result.scoring == [
        "CER, Whisper's basic normaliser, in simplified characters",
        "WER, Whisper's English normaliser",
    ]


def test_numbers() -> None:
    assert (number(1.25, 1), number(None), percent(0.05), percent(0.001, sign=True)) == (
        "1.2",
        "-",
        "5.00",
        "+0.10",
    )


def test_table() -> None:
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"
