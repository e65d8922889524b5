"""How texts are read."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from conch.component import Row
from conch.families.hibari.front_end import PAUSES, FrontEnd, FrontEndConfig, aligned, words_of

SKIPPED = PAUSES | {*"ˈˌ"}
"""Sounds that differ with the place in a sentence: pauses and stress."""
READINGS = [
    ("It costs $5.00.", "It costs five dollars."),
    ("At 7:30 pm we left.", "At seven thirty P.M. we left."),
    ("On 3/4/2024 it rained.", "On March fourth, twenty twenty four it rained."),
    ("In 1984.", "In nineteen eighty four."),
    ("Dr. Smith", "Doctor Smith"),
    ("5 km away", "five kilometers away"),
    ("It is 20 °C.", "It is twenty degrees Celsius."),
    ("Chapter IV", "Chapter four"),
    ("See www.example.com", "See w w w dot example dot com"),
    ("Mail a.b@example.org.", "Mail a dot b at example dot org."),
    ("Use C# now", "Use C sharp now"),
    ("SOLID ROCKS OF SALT", "solid rocks of salt"),
    ("NATO and the UN", "NATO and the UN"),
    ("2½ cups", "two and a half cups"),
    ("\uff11\uff12\uff13", "one hundred twenty three"),
]


@pytest.fixture(scope="module")
def front_end() -> FrontEnd:
    return FrontEnd(FrontEndConfig(nice=0))


def read(front_end: FrontEnd, text: str, **parameters):
    row = Row({"text": np.array([text.encode()], np.object_)}, parameters)
    found = front_end([row])[0]
    return found["phonemes"].item().decode(), found["tokens"], found["spans"]


@pytest.mark.parametrize(("text", "said"), READINGS)
def test_a_text_sounds_like_its_words(front_end, text, said) -> None:
    assert read(front_end, text)[0] == read(front_end, said)[0] != ""


def test_written_forms_are_read_as_people_read_them(front_end) -> None:
    """The readings are written by hand; of some texts several are right."""

    def sounds(text: str) -> str:
        return "".join(sound for sound in read(front_end, text)[0] if sound not in SKIPPED)

    wrong, kinds = [], Counter[str]()
    for line in (Path(__file__).parent / "readings.tsv").read_text("utf-8").splitlines():
        kind, text, right = line.split("\t")
        kinds[kind] += 1
        if sounds(text) not in map(sounds, right.split(" | ")):
            wrong.append(text)
    assert sum(kinds.values()) >= 200 and len(kinds) == 10
    assert len(wrong) <= 0.05 * sum(kinds.values()), wrong


def test_words_have_their_place_in_the_text_and_in_the_sounds(front_end) -> None:
    text = "Well, it costs $5.00 at  7:30 pm!"
    phonemes, tokens, spans = read(front_end, text)
    words = [text[start:end] for start, end, _, _ in spans]
    assert words == ["Well,", "it", "costs", "$5.00", "at", "7:30 pm!"]
    assert len(tokens) == len(phonemes) + 2 and tokens[0] == tokens[-1] == 0
    sounds = [phonemes[first - 1 : last - 1] for _, _, first, last in spans]
    assert sounds[1:3] == [read(front_end, word)[0] for word in ("it", "costs")]
    assert not {*"".join(sounds)} & {*",!"}


def test_numbers_may_be_left_as_they_are(front_end) -> None:
    text = "on 3/4/2024"
    assert read(front_end, text, normalize=False)[0] != read(front_end, text)[0]


@pytest.mark.parametrize("text", ["日本語 テスト", "Привет", "😀 😂", "\x00\x07", "...", "\u200b"])
def test_what_has_no_reading_has_no_sound(front_end, text) -> None:
    phonemes, tokens, spans = read(front_end, text)
    assert (phonemes, len(tokens), len(spans)) == ("", 0, 0)


def test_random_texts_are_read_or_have_no_sound(front_end) -> None:
    rng = random.Random(7)
    ranges = [(0, 0xD7FF), (0x20, 0x7E), (0x1F300, 0x1F9FF), (0x2460, 0x24FF)]
    for _ in range(500):
        text = "".join(chr(rng.randint(*rng.choice(ranges))) for _ in range(rng.choice([2, 40])))
        _, tokens, spans = read(front_end, text)
        assert all(end > start and last > first for start, end, first, last in spans)
        assert all(span[3] < len(tokens) for span in spans)


def test_a_number_without_a_name_is_read_by_its_digits(front_end) -> None:
    assert read(front_end, "9" * 40)[0] == read(front_end, " ".join("9" * 40))[0]


def test_words_are_cleaned_and_keep_their_places() -> None:
    text = "the\x07cat  猫 ﬁne"
    found = [(word.text, text[word.start : word.end]) for word in words_of(text)]
    assert found == [("the", "the"), ("cat", "cat"), ("fine", "ﬁne")]


def test_words_that_are_read_as_others_are_aligned_as_one() -> None:
    written, said = ["at", "7:30", "pm", "we"], ["at", "seven", "thirty", "P.M.", "we"]
    assert list(aligned(written, said)) == [(0, 0, 0, 1), (1, 2, 1, 4), (3, 3, 4, 5)]
    assert list(aligned(["a", "b"], ["a"])) == [(0, 0, 0, 1)]
    assert list(aligned(["a"], ["a", "b"])) == [(0, 0, 0, 1), (0, 0, 1, 2)]
