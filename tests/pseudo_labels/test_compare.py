"""How far two recognisers agree."""

from dataclasses import replace

import jiwer
import pytest

from conch.pseudo_labels.compare import TextPair, by_segment, whole
from conch.wire.result import Hypothesis, Segment, Transcript


def heard(*segments: tuple[float, float, str], language: str = "") -> Transcript:
    parts = tuple(Segment(start, end, (Hypothesis(text, 0, 0),)) for start, end, text in segments)
    text = " ".join(part.text for part in parts)
    return Transcript((Hypothesis(text, 0, 0),), parts, 9.0, (), {}, language=language)


def compared(a: str, b: str, language: str = "") -> TextPair:
    return whole(heard((0, 9, a)), heard((0, 9, b)), language)


@pytest.mark.parametrize(
    ("a", "b", "language", "texts"),
    [
        # After the English normaliser, without spaces.
        (
            "Twenty-one COLOURED cats.",
            "21 colored cat",
            "en",
            ("21coloredcats", "21coloredcat"),
        ),
        ("今天天气很好。", "今天 天气 真好", "zh", ("今天天气很好", "今天天气真好")),
        ("Zwölf Boxkämpfer!", "zwölf boxkämpfe", "de", ("zwölfboxkämpfer", "zwölfboxkämpfe")),
    ],
)
def test_the_rate_is_jiwers_after_the_normaliser(
    a: str, b: str, language: str, texts: tuple[str, str]
) -> None:
    result = compared(a, b, language)
    assert result.cer == pytest.approx(jiwer.cer(*texts))
    assert result.characters == len(texts[0])


def test_texts_that_only_look_different_agree_at_zero() -> None:
    assert compared("It's twenty-one o'clock, COLOUR!", "it is 21 o'clock color").is_kept(0.0)
    assert compared("Hello there.", "hello  there").is_kept(0.0)


@pytest.mark.parametrize(("a", "b"), [("", ""), ("", "noise"), ("noise", ""), ("...", "noise")])
def test_no_text_is_no_label(a: str, b: str) -> None:
    assert not compared(a, b).is_kept(1.0)


def test_a_threshold_is_kept_to_the_character() -> None:
    result = compared("abcde fghij", "abcde fghix")
    assert result.cer == 0.1
    assert result.is_kept(0.1)
    assert not result.is_kept(0.0999)


def test_the_language_is_of_the_caller_else_of_the_answers_else_english() -> None:
    a, b = heard((0, 9, "今天"), language="zh"), heard((0, 9, "今天"))
    assert whole(a, b).language == "zh"
    assert whole(b, a).language == "zh"
    assert whole(a, b, "ja").language == "ja"
    assert whole(b, b).language == "en"


def test_each_segment_is_compared_in_its_language() -> None:
    def told(language: str) -> Transcript:
        spoken = heard((0, 2, "twenty one"), (3, 4, "vingt et un"), language="en")
        first, second = spoken.segments
        return replace(spoken, segments=(first, replace(second, language=language)))

    assert [item.language for item in by_segment(told("fr"), told(""))] == ["en", "fr"]
    assert [item.language for item in by_segment(told(""), told("fr"))] == ["en", "fr"]
    assert [item.language for item in by_segment(told("fr"), told("fr"), "de")] == ["de", "de"]


def test_segments_are_paired_by_their_times() -> None:
    a = heard((0.5, 2.0, "cat sat"), (3.0, 4.0, "three"))
    b = heard((0.5, 2.0, "cat set"), (5.0, 6.0, "five"))
    result = by_segment(a, b)
    assert [(item.start, item.text_a, item.text_b) for item in result] == [
        (0.5, "cat sat", "cat set"),
        (3.0, "three", ""),
        (5.0, "", "five"),
    ]
    assert [item.is_kept(1.0) for item in result] == [True, False, False]
    assert result[0].seconds == 1.5
