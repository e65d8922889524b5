"""What Vosk says, as hypotheses; and that its library meets no other one."""

import json
import math

import pytest
from without_torch import run

from conch.families.kaldi.decoder import alternatives, joined


def said(*words: tuple[str, float, float, float]) -> list[dict[str, object]]:
    return [
        {"word": text, "start": start, "end": end, "conf": conf} for text, start, end, conf in words
    ]


def test_words_with_times_and_confidences():
    result = {"result": said(("good", 0.3, 0.63, 0.5), ("day", 0.63, 0.6303, 0.0)), "text": ""}
    (found,) = alternatives(json.dumps(result))
    assert found.text == "good day"
    assert [(word.start_frame, word.end_frame) for word in found.words] == [(30, 63), (63, 64)]
    assert [word.confidence for word in found.words] == [0.5, 1e-6]
    assert found.score == pytest.approx(math.log(0.5e-6))


def test_words_of_a_partial_result():
    result = {"partial": "good", "partial_result": said(("good", 0.3, 0.63, 1.0))}
    assert alternatives(json.dumps(result))[0].text == "good"
    assert alternatives('{"partial": ""}') == [((), 0.0)]
    assert alternatives('{"text": ""}') == [((), 0.0)]


def test_alternatives_share_the_confidence_of_a_word():
    one, other = (
        [{"word": text, "start": 0, "end": 1} for text in words] for words in ("ab", "ac")
    )
    result = {
        "alternatives": [
            {"text": "a b", "confidence": 101.0, "result": one},
            {"text": "a c", "confidence": 100.0, "result": other},
        ]
    }
    first, second = alternatives(json.dumps(result))
    assert (first.text, second.text) == ("a b", "a c")
    b = 1 / (1 + math.exp(-1))
    assert [word.confidence for word in (*first.words, *second.words)] == [
        pytest.approx(value) for value in (1, b, 1, 1 - b)
    ]
    silence = '{"alternatives": [{"text": "", "confidence": 1.0}]}'
    assert alternatives(silence) == [((), 1.0)]
    best = joined([[first, second], alternatives(silence), [second, first]], 3)
    assert [item.text for item in best] == ["a b a b", "a b a c", "a c a b"]
    assert [item.score for item in best] == [203.0, 202.0, 202.0]
    assert [word.text for word in best[1].words] == ["a", "b", "a", "c"]


def test_nothing_that_was_said():
    (found,) = joined([], 4)
    assert (found.text, found.words, found.score) == ("", (), 0.0)


def test_the_component_imports_no_other_library_of_kaldi():
    found = run(
        "import sys, conch.families.kaldi.decoder\n"
        "print(sorted({'kaldifst', 'kaldi_decoder', 'vosk'} & {*sys.modules}))"
    )
    assert found == "[]"
