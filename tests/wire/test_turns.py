from conch.wire.formats import to_text, to_webvtt
from conch.wire.result import Hypothesis, Segment, Transcript, Turn, Word
from conch.wire.turns import (
    closed,
    cut_by_speaker,
    joined_turns,
    other_turns,
    with_speakers,
    words_with_speakers,
)

TURNS = [Turn("A", 0.0, 1.0), Turn("B", 1.0, 3.0)]
WORDS = (
    Word("Shall", 0.2, 0.5, 1.0),
    Word("we?", 0.5, 0.9, 1.0),
    Word("Yes,", 1.1, 1.5, 1.0),
    Word("certainly.", 1.6, 2.5, 1.0),
)
LIVE = Segment(0.0, 3.0, (Hypothesis("Shall we? Yes, certainly.", -4.0, -4.0),), WORDS, index=7)


def test_a_live_segment_stays_whole_and_has_who_says_most() -> None:
    result = with_speakers(LIVE, TURNS)
    assert (result.speaker, result.index, result.text) == ("B", 7, LIVE.text)
    assert [word.speaker for word in result.words] == ["A", "A", "B", "B"]
    assert result.words == words_with_speakers(WORDS, TURNS)


def test_its_parts_have_its_index_and_formats_show_them() -> None:
    result = with_speakers(LIVE, TURNS)
    parts = cut_by_speaker(result)
    assert [(part.speaker, part.text, part.index) for part in parts] == [
        ("A", "Shall we?", 7),
        ("B", "Yes, certainly.", 7),
    ]
    whole = Transcript(result.nbest, (result,), 3.0, (), {})
    assert to_text(whole) == "A: Shall we?\nB: Yes, certainly.\n"
    assert "<v A>Shall we?" in to_webvtt(whole)
    assert "<v B>Yes, certainly." in to_webvtt(whole)


def test_a_segment_without_speakers_is_one_part() -> None:
    assert cut_by_speaker(LIVE) == [LIVE]
    silent = Segment(0.0, 1.0, ())
    assert with_speakers(silent, TURNS) == silent


def test_short_pauses_of_a_speaker_belong_to_the_turn() -> None:
    turns = [Turn("A", 2.4, 3.0), Turn("B", 2.0, 2.3), Turn("A", 0.0, 2.0), Turn("B", 3.0, 4.0)]
    whole = [Turn("A", 0.0, 3.0), Turn("B", 2.0, 2.3), Turn("B", 3.0, 4.0)]
    assert joined_turns(turns) == whole
    assert joined_turns(turns, least_s=0.5) == [whole[0], whole[2]]
    assert joined_turns([Turn("A", 0.0, 5.0), Turn("A", 1.0, 2.0)]) == [Turn("A", 0.0, 5.0)]
    assert closed([(512, 1024), (0, 512)], 0) == [(0, 512), (512, 1024)]


def test_what_was_told_with_a_short_pause_is_no_other_turn() -> None:
    told = [Turn("A", 0.0, 2.0), Turn("A", 2.4, 3.0)]
    assert [*other_turns(told, joined_turns(told))] == []
