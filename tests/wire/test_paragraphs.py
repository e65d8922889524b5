from transcripts import silent

from conch.wire.paragraphs import FULL, LONGEST, PAUSE_S, paragraphs
from conch.wire.result import Segment

SENTENCE = "It was a long day for all of us, and it was not over yet."


def said(*texts: str, pause_s: float = 0.3) -> list[Segment]:
    return [silent(text, at * 5.0, at * 5.0 + 5.0 - pause_s) for at, text in enumerate(texts)]


def test_a_long_pause_ends_a_paragraph() -> None:
    assert paragraphs(said("One.", "two", pause_s=PAUSE_S)) == ["One.", "two"]
    assert paragraphs(said("One", "two", pause_s=PAUSE_S - 0.1)) == ["One two"]
    assert paragraphs([]) == []


def test_a_monologue_is_cut_behind_sentences() -> None:
    segments = said(*[f"{SENTENCE} {SENTENCE}"] * 12)
    made = paragraphs(segments)
    assert " ".join(made) == " ".join(segment.text for segment in segments)
    assert all(FULL * 0.8 < len(text) < FULL + 2 * len(SENTENCE) for text in made[:-1])
    assert all(text.endswith(SENTENCE) for text in made)
    # Also within a segment.
    assert len(paragraphs(said(" ".join([SENTENCE] * 24)))) > 2


def test_a_short_pause_ends_a_paragraph_that_is_half_full() -> None:
    half = " ".join([SENTENCE] * 4)
    assert FULL / 2 < len(half) < FULL * 0.75
    assert paragraphs(said(half, SENTENCE, pause_s=PAUSE_S / 2)) == [half, SENTENCE]
    assert paragraphs(said(half, SENTENCE, pause_s=PAUSE_S / 8)) == [f"{half} {SENTENCE}"]


def test_no_sentence_is_cut_unless_it_is_very_long() -> None:
    text = "and so on and so forth"
    made = paragraphs(said(*[text] * 100))
    assert " ".join(made) == " ".join([text] * 100)
    assert all(LONGEST <= len(item) < LONGEST + 2 * len(text) for item in made[:-1])


def test_scripts_without_spaces_have_none() -> None:
    text = "今天天气很好。我们去公园玩。"
    one, other = paragraphs(said(*[text] * 20))
    assert one + other == text * 20
    # Wide characters count two.
    assert FULL / 2 * 0.8 < len(one) < FULL / 2 + len(text)
