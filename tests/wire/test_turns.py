from conch.wire.formats import to_text, to_webvtt
from conch.wire.result import Hypothesis, Segment, Transcript, Turn, Word
from conch.wire.turns import cut_by_speaker, with_speakers, words_with_speakers

TURNS = [Turn("A", 0.0, 1.0), Turn("B", 1.0, 3.0)]
WORDS = (
    Word("Shall", 0.2, 0.5, 1.0),
    Word("we?", 0.5, 0.9, 1.0),
    Word("Yes,", 1.1, 1.5, 1.0),
    Word("certainly.", 1.6, 2.5, 1.0),
)
LIVE = Segment(0.0, 3.0, (Hypothesis("Shall we? Yes, certainly.", -4.0, -4.0),), WORDS, index=7)


def test_a_live_segment_stays_whole_and_has_who_says_most() -> None:
    found = with_speakers(LIVE, TURNS)
    assert (found.speaker, found.index, found.text) == ("B", 7, LIVE.text)
    assert [word.speaker for word in found.words] == ["A", "A", "B", "B"]
    assert found.words == words_with_speakers(WORDS, TURNS)


def test_its_parts_have_its_index_and_formats_show_them() -> None:
    found = with_speakers(LIVE, TURNS)
    parts = cut_by_speaker(found)
    assert [(part.speaker, part.text, part.index) for part in parts] == [
        ("A", "Shall we?", 7),
        ("B", "Yes, certainly.", 7),
    ]
    whole = Transcript(found.nbest, (found,), 3.0, (), {})
    assert to_text(whole) == "A: Shall we?\nB: Yes, certainly.\n"
    assert "<v A>Shall we?" in to_webvtt(whole)
    assert "<v B>Yes, certainly." in to_webvtt(whole)


def test_a_segment_without_speakers_is_one_part() -> None:
    assert cut_by_speaker(LIVE) == [LIVE]
    silent = Segment(0.0, 1.0, ())
    assert with_speakers(silent, TURNS) == silent
