import numpy as np
import pytest

from conch.audio.segmentation import Span
from conch.component import VAD_FRAME_SAMPLES
from conch.recognition.live.endpointing import (
    Endpointer,
    EndpointRules,
    SpeechExtent,
    speech_span,
)
from conch.recognition.speech import SpeechProbs

RULES = EndpointRules(threshold=0.5, silence_ms=320, no_speech_ms=640, length_s=3.2)


def probs(text: str, frame_samples: int = VAD_FRAME_SAMPLES) -> SpeechProbs:
    """`#` is speech, `.` silence, `-` in between."""
    found = np.array([{"#": 0.9, ".": 0.1, "-": 0.4}[item] for item in text])
    return SpeechProbs(found, frame_samples)


def speech(end: int, first: int, after_last: int) -> SpeechExtent:
    """Of frames."""
    return SpeechExtent(
        end * VAD_FRAME_SAMPLES, first * VAD_FRAME_SAMPLES, after_last * VAD_FRAME_SAMPLES
    )


def first_endpoint(text: str, rules: EndpointRules = RULES) -> tuple[int, str] | None:
    """Return the number of frames, fed one by one, and the rule of the first endpoint."""
    endpointer = Endpointer(rules)
    for index, item in enumerate(text):
        if rule := endpointer.push(probs(item)):
            return index + 1, rule
    return None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("##" + "." * 20, (12, "silence")),
        ("." * 30, (20, "no_speech")),
        ("." * 19 + "##" + "." * 9 + "#" + "." * 10, (41, "silence")),
        ("#" * 200, (100, "length")),
        ("#-" + "." * 20, (12, "silence")),  # speech goes on above the lower threshold
        (".-" + "." * 20, (20, "no_speech")),  # but does not begin there
        ("##" + "." * 9, None),
    ],
)
def test_rules(text, expected):
    assert first_endpoint(text) == expected


def test_who_has_gone_on_speaking_meanwhile_has_not_ended():
    endpointer = Endpointer(RULES)
    assert endpointer.push(probs("##" + "." * 15 + "##")) is None
    assert endpointer.speech == speech(19, 0, 19)


def test_an_utterance_after_the_other():
    endpointer = Endpointer(RULES)
    assert endpointer.push(probs("." * 4 + "##" + "." * 10)) == "silence"
    assert endpointer.speech == speech(16, 4, 6)
    endpointer.restart()
    assert endpointer.push(probs("." * 20)) == "no_speech"
    endpointer.restart()
    assert endpointer.push(probs("#" * 100)) == "length"
    endpointer.restart()
    # In speech from the start, at probabilities that would not begin it.
    assert endpointer.push(probs("-" * 3)) is None
    assert endpointer.speech == speech(16 + 20 + 100 + 3, 136, 139)


def test_a_pause_that_was_not_sent_is_silence_and_no_speech_goes_on_behind_it():
    endpointer = Endpointer(RULES)
    assert endpointer.push(probs("##..")) is None
    endpointer.pause_ms = 320 - 64 - 1
    assert endpointer.push(probs("")) is None
    endpointer.pause_ms += 1
    assert endpointer.push(probs("#")) is None
    endpointer.pause_ms = 320
    assert endpointer.push(probs("#")) == "silence"
    endpointer.restart()
    endpointer.pause_ms = 0
    assert endpointer.push(probs("-" * 3)) is None
    assert endpointer.speech.first is None


def test_where_somebody_speaks_is_padded_within_the_utterance():
    utterance, pad_ms, pad = Span(1_000, 50_000), 300, 4_800
    assert speech_span(SpeechExtent(50_000), utterance, pad_ms) == utterance
    found = speech_span(SpeechExtent(50_000, 10_000, 20_000), utterance, pad_ms)
    assert found == Span(10_000 - pad, 20_000 + pad)
    assert speech_span(SpeechExtent(50_000, 2_000, 49_000), utterance, pad_ms) == utterance


def test_frames_may_come_in_pieces_of_any_length():
    rng = np.random.default_rng(0)
    for _ in range(20):
        text = "".join(rng.choice(list("#.-"), size=60))
        whole, pieces = Endpointer(RULES), Endpointer(RULES)
        last = whole.push(probs(text))
        cuts = np.sort(rng.integers(0, 61, size=4))
        for piece in np.split(probs(text).probs, cuts):
            found = pieces.push(SpeechProbs(piece, VAD_FRAME_SAMPLES))
        assert (found, pieces.speech) == (last, whole.speech)


def test_frames_of_another_length():
    endpointer = Endpointer(RULES)
    assert endpointer.push(probs("#" + "." * 15, frame_samples=320)) is None
    assert endpointer.push(probs(".", frame_samples=320)) == "silence"
    assert endpointer.speech == SpeechExtent(17 * 320, 0, 320)
