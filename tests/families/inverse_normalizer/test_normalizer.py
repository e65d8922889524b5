"""Inverse text normalisation: what becomes digits, what stays, and where it was."""

import csv
from pathlib import Path

import numpy as np
import pytest

from conch.component import Row, bytes_array
from conch.families.inverse_normalizer.normalizer import InverseNormalizer, InverseNormalizerConfig
from conch.language import spelled
from conch.wire.errors import ConfigError

with (Path(__file__).parent / "spoken_forms.tsv").open(encoding="utf-8") as file:
    FORMS = [tuple(row) for row in csv.reader(file, delimiter="\t")]
"""Spoken forms of English, and what a reader expects."""


@pytest.fixture(scope="module")
def normalizer() -> InverseNormalizer:
    return InverseNormalizer(InverseNormalizerConfig())


def written(normalizer: InverseNormalizer, text: str, language: str = "") -> str:
    inputs = {"text": bytes_array([text])}
    if language:
        inputs["language"] = bytes_array([language])
    (answer,) = normalizer([Row(inputs)])
    new, at, pieces = answer["text"][0].decode(), 0, []
    assert answer["spans"].dtype == np.int32
    for start, end, new_start, new_end in answer["spans"].tolist():
        pieces += [text[at:start], new[new_start:new_end]]
        assert at <= start < end and len("".join(pieces)) == new_end
        at = end
    assert "".join([*pieces, text[at:]]) == new
    return new


def test_most_spoken_forms_are_written_as_readers_expect(normalizer):
    wrong = {spoken: written(normalizer, spoken) for spoken, _ in FORMS}
    right = [spoken for spoken, wanted in FORMS if wrong[spoken] == wanted]
    assert len(FORMS) == 60
    assert len(right) == 47, sorted(set(wrong) - set(right))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Twenty-one dollars, please.", "$21, please."),
        (
            'On March third, nineteen ninety nine, he said "two hundred."',
            'On March 3, 1999, he said "200."',
        ),
        ("One thousand, two hundred people", "1200 people"),
        ("He was twenty-one; she, thirty-two.", "He was 21; she, 32."),
        ("We left at five p.m. At six p m.", "We left at 5:00 p.m. At 6:00 p.m."),
        ("WE HAVE TWENTY ONE DOLLARS", "WE HAVE $21"),
        ("(forty two)", "(42)"),
        ("naïve — café  twenty one\tpercent…", "naïve — café  21%…"),
        ("at five thirty", "at 5:30"),
        ("between fifty and ninety people", "between 50 and 90 people"),
        ("not more than eight and thirty men", "not more than eight and thirty men"),
        ("one hundred and fifty and two hundred", "150 and 200"),
        ("it took thirty five minutes", "it took 35 minutes"),
        ("nine thousand five hundred feet up", "9500 feet up"),
        ("a hundred and thirty pounds, a thousand two hundred men", "130 pounds, 1200 men"),
        ("It's a quarter to eleven", "It's 10:45"),
        ("ten thousand five hundred pounds", "10,500 pounds"),
        ("One thousand two hundred dollars in two thousand and eight", "$1,200 in 2008"),
        ("one million two hundred thousand people", "1,200,000 people"),
    ],
)
def test_case_punctuation_and_spaces_around_a_number_stay(normalizer, text, wanted):
    assert written(normalizer, text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("It is seven, seven three nine now.", "It is 7739 now."),
        ("It is three point one four, one five nine.", "It is 3.14159."),
        ("four zero zero one five, six nine, two", "40015692"),
        ("Seven, seven, three, nine.", "7739."),
        ("Three point one, four, one, five, nine.", "3.14159."),
        (
            "my number is five five five, one two three, four five six seven",
            "my number is 555-123-4567",
        ),
        ('He said: "Seven, oh, seven nine," and then, "two."', 'He said: "7079," and then, "two."'),
        ("a pin of one, one, one, one", "a pin of 1111"),
        ("With seven, seven, three, nine, you come in.", "With 7739, you come in."),
        ("Is seven, seven, three, nine on the door?", "Is 7739 on the door?"),
        # The digits of a recogniser that writes some itself.
        ("It is seven, 739.", "It is 7739."),
        ("The code is seven, 739 now.", "The code is 7739 now."),
        ("Pi is 3.14, 159.", "Pi is 3.14159."),
        ("Call 40015, six nine, two.", "Call 40015692."),
        ("My pin is 4, 0, 9, 1.", "My pin is 4091."),
    ],
)
def test_digits_with_commas_at_the_pauses_are_one_number(normalizer, text, wanted):
    assert written(normalizer, text) == wanted


@pytest.mark.parametrize("number", [13, 40, 99, 118, 512, 1041, 1900, 7745, 20_016, 999_356])
def test_numbers_beside_others_are_read_as_they_were_said(normalizer, number):
    said = " ".join(spelled(str(number)))
    shown = f"{number:,}" if number >= 10_000 else str(number)
    assert written(normalizer, f"{said} or {said} people") == f"{shown} or {shown} people"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "One of them said: no one knows, one by one.",
        "The first thing that a second look shows",
        "two hours and three minutes",
        "a well-known twenty-year-old one-way ticket",
        "Tiger, tiger, burning bright! In the forests of the night",
        "I paid $21.50 on 3/4/2020, 50% off",
        "\x00\u202e\U0001f600 one \U0001f600",
        "das kostet hundert Euro",
        # The grammars take them for 112, 2:10, 5911, May 1, 5060, a telephone number.
        "a one two punch",
        "two fifty and nine eleven",
        "at two fifty",
        "may one of them stay",
        "fifty sixty people",
        "one foot slipped on a two inch rope, ten miles away",
        "a hundred thousands, and three reals",
        "half past three o'clock",
        "one two three four five six seven eight nine ten",
        "One, two, three, four, five. Nine, eight, seven, six! Two, four, six, eight, who?",
        "We read two, three, five, seven, and ten of them, or two, three, five, seven, ten.",
        "Chapters two, three, five, seven. The children are nine, seven, four, two.",
        "They won by two, three, one, four goals, and bought seven, seven, three, nine apples.",
        "The scores were seven, seven, three, and nine, or 2, 3, 5, 9.",
        "One or two, three or four, or seven, three, nine. Five, two.",
        "At seven, 300 people came. On May seven, 1999. On March 3, 1999. In 2008, 159 died.",
        "It costs 2.5, 300 and 12. Count 1, 2, 3, 4. On page 40, 15 lines.",
    ],
)
def test_what_has_no_number_or_a_small_one_alone_stays(normalizer, text):
    assert written(normalizer, text) == text


@pytest.mark.parametrize(
    ("text", "language", "wanted"),
    [
        ("他有两百三十个苹果、一个人。", "zh", "他有230个苹果、一个人。"),
        ("百分之五十的人", "", "50%的人"),
        ("今天是二零二四年三月五号", "zh", "今天是2024年3月5日"),
        ("五点三十分", "zh", "五点三十分"),
        ("二十一円です", "", "21円です"),
        ("twenty one", "de", "twenty one"),
    ],
)
def test_the_language_decides_or_else_the_script(normalizer, text, language, wanted):
    assert written(normalizer, text, language) == wanted


def test_a_long_text_is_read_in_parts(normalizer):
    text = " ".join(["and then twenty one of the dogs went to the garden of the house"] * 10)
    assert written(normalizer, text) == text.replace("twenty one", "21")
    text = " ".join(["twenty one of the dogs went home"] * 10)
    assert written(normalizer, text) == text.replace("twenty one", "21")


@pytest.mark.parametrize("number", ["forty two, ", "四十二、"])
def test_of_numbers_without_end_the_first_are_read(normalizer, number):
    found = written(normalizer, number * 200)
    assert found.startswith("42") and found.endswith(number)
    assert 100 <= found.count("42") <= 150


def test_what_stays_alone_can_be_chosen():
    normalizer = InverseNormalizer(InverseNormalizerConfig(least_alone=0))
    assert written(normalizer, "the first thing") == "the 1st thing"
    with pytest.raises(ConfigError, match="least_alone takes 0 or more; is: -1"):
        InverseNormalizerConfig(least_alone=-1)
