import numpy as np
import pytest

from conch.endpointing import Endpointer, EndpointRules, Speech

RULES = EndpointRules(threshold=0.5, silence_ms=320, no_speech_ms=640, length_s=3.2)


def probs(text: str) -> list[float]:
    """`#` is speech, `.` silence, `-` in between."""
    return [{"#": 0.9, ".": 0.1, "-": 0.4}[item] for item in text]


def first_endpoint(text: str, rules: EndpointRules = RULES) -> tuple[int, str] | None:
    """After how many frames, fed one by one, and by which rule."""
    endpointer = Endpointer(rules)
    for index, prob in enumerate(probs(text)):
        if rule := endpointer.push([prob]):
            return index + 1, rule
    return None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("##" + "." * 20, (12, "silence")),
        ("." * 30, (20, "no_speech")),
        ("." * 19 + "##" + "." * 9 + "#" + "." * 10, (41, "silence")),
        ("#" * 200, (100, "length")),
        ("#-" + "." * 20, (12, "silence")),  # what was speech stays it above the lower threshold
        (".-" + "." * 20, (20, "no_speech")),  # but does not begin there
        ("##" + "." * 9, None),
    ],
)
def test_rules(text, expected):
    assert first_endpoint(text) == expected


def test_who_has_gone_on_speaking_meanwhile_has_not_ended():
    endpointer = Endpointer(RULES)
    assert endpointer.push(probs("##" + "." * 15 + "##")) is None
    assert endpointer.speech == Speech(19, 0, 19)


def test_an_utterance_after_the_other():
    endpointer = Endpointer(RULES)
    assert endpointer.push(probs("." * 4 + "##" + "." * 10)) == "silence"
    assert endpointer.speech == Speech(16, 4, 6)
    endpointer.restart()
    assert endpointer.push(probs("." * 20)) == "no_speech"
    endpointer.restart()
    assert endpointer.push(probs("#" * 100)) == "length"
    endpointer.restart()
    # In speech from the start, at probabilities that would not begin it.
    assert endpointer.push(probs("-" * 3)) is None
    assert endpointer.speech == Speech(3, 0, 3)


def test_frames_may_come_in_pieces_of_any_length():
    rng = np.random.default_rng(0)
    for _ in range(20):
        text = "".join(rng.choice(list("#.-"), size=60))
        whole, pieces = Endpointer(RULES), Endpointer(RULES)
        last = whole.push(probs(text))
        cuts = np.sort(rng.integers(0, 61, size=4))
        for piece in np.split(np.array(probs(text)), cuts):
            found = pieces.push(piece)
        assert (found, pieces.speech) == (last, whole.speech)
