"""What Vosk says, as hypotheses; and that its library meets no other one."""

import json
import math

import pytest
from without_torch import run

from conch.families.kaldi.decoder import _without_noise, alternatives, joined


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


def test_vosk_gets_texts_that_it_reads_and_no_noise(tmp_path):
    for folder in ("am", "conf", "graph/phones"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "am/final.mdl").write_bytes(b"\r\n\0")
    (tmp_path / "conf/mfcc.conf").write_bytes(b"\xef\xbb\xbf--num-ceps=40\r\n--dither=1")
    (tmp_path / "graph/words.txt").write_bytes(b"\xef\xbb\xbfgr\xfc\xdf 1\r\n")
    (tmp_path / "graph/phones/word_boundary.int").write_bytes(b"1 begin\r\n")
    with _without_noise(tmp_path) as folder:
        assert (folder / "am/final.mdl").read_bytes() == b"\r\n\0"
        settings = (folder / "conf/mfcc.conf").read_bytes()
        assert settings == b"--num-ceps=40\n--dither=1\n--dither=0\n"
        assert (folder / "graph/words.txt").read_bytes() == b"gr\xfc\xdf 1\n"
        assert (folder / "graph/phones/word_boundary.int").read_bytes() == b"1 begin\n"
    assert not folder.exists()
