"""From units to words: joins, bytes and scripts without spaces."""

import pytest

from conch.decoding.vocab import WrittenUnits


def texts(tokens: list[str], units: list[int]) -> list[str]:
    words = WrittenUnits(tokens).words((unit, place, -0.5) for place, unit in enumerate(units))
    return [word.text for word in words]


def test_words_have_the_frames_and_probabilities_of_their_units():
    units = WrittenUnits(["<blk>", "▁THE", "▁CA", "T", "<unk>"])
    one, two = units.words([(1, 3, -0.1), (2, 7, -0.2), (3, 9, -0.4)])
    assert (one.text, one.start_frame, one.end_frame) == ("THE", 3, 4)
    assert (two.text, two.start_frame, two.end_frame) == ("CAT", 7, 10)
    assert two.confidence == pytest.approx(0.7408, abs=1e-4)
    assert units.silent == [0, 4]


def test_a_mark_alone_begins_a_word():
    assert texts(["", "▁", "a", "b"], [1, 2, 1, 3, 2]) == ["a", "ba"]


def test_each_letter_of_a_script_without_spaces_is_a_word():
    tokens = ["<blk>", "我", "用", "▁PY", "THON", "写"]
    assert texts(tokens, [1, 2, 3, 4, 5]) == ["我", "用", "PYTHON", "写"]


def test_bytes_that_stand_for_letters_without_a_unit():
    tokens = ["<blk>", "▁a", *(f"<0x{byte:02X}>" for byte in range(256))]
    letters = [2 + byte for byte in "é写".encode()]
    assert texts(tokens, [1, *letters]) == ["aé", "写"]
    assert texts(tokens, [1, letters[0]]) == ["a"], "half a letter is none"
    assert WrittenUnits(tokens).letters([1, letters[0]]) == " a"


def test_byte_bpe_of_icefall():
    # The bytes E6 88 91 of 我 and E7 94 A8 of 用, as icefall writes them.
    assert texts(["<blk>", "▁ƍĩ", "Ĵ", "ƎķŎ", "▁go▁o", "n"], [1, 2, 3, 4, 5]) == [
        *("我", "用", "go", "on"),
    ]
