"""Cues of subtitles: by example, and by what holds for any words."""

from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transcripts import silent, spoken
from transcripts import transcript as transcript_of

from conch.wire.result import Hypothesis, Segment, Transcript, Word
from conch.wire.subtitles import (
    GAP_MS,
    LONG_PAUSE_MS,
    MAX_CHARS_PER_S,
    MAX_CUE_MS,
    MAX_LINE_CHARS,
    MAX_LINES,
    MIN_CUE_MS,
    Block,
    Cue,
    SpacedWord,
    channel_cues,
    columns,
    cues,
    pieces_of,
)

transcript = partial(transcript_of, duration=100.0)


def shown(*segments: Segment) -> list[tuple[str, ...]]:
    return [cue.lines for cue in cues(transcript(*segments))]


def test_a_cue_stays_until_it_is_read_where_nobody_goes_on() -> None:
    text = "It is easy to say."
    (cue,) = cues(transcript(spoken(text, word_s=0.1)))
    assert (cue.start_ms, cue.end_ms) == (0, -(-len(text) * 1000 // MAX_CHARS_PER_S))
    (short,) = cues(transcript(spoken("Oh no.", word_s=0.1)))
    assert (short.start_ms, short.end_ms) == (0, MIN_CUE_MS)


def test_a_cue_makes_room_for_the_next() -> None:
    first, second = cues(
        transcript(spoken("So it ended there and then, as he said.", 0.0), spoken("Yes, yes!", 2.9))
    )
    assert first.end_ms == second.start_ms - GAP_MS
    assert second.start_ms == 2900


def test_no_cue_ends_after_the_audio() -> None:
    text = "It is easy to say so, and it is hard to do."
    (cue,) = cues(replace(transcript(spoken(text, 0.9, word_s=0.08)), duration=2.0))
    assert (cue.start_ms, cue.end_ms) == (900, 2000)
    # Without a duration, there is no end.
    # An alignment may give words times behind it.
    late = cues(replace(transcript(spoken(text, 0.9, word_s=0.08)), duration=0.8))
    assert [(cue.start_ms, cue.end_ms) for cue in late] == [(788, 800)]
    (cue,) = cues(replace(transcript(spoken(text, 0.9, word_s=0.08)), duration=0.0))
    assert cue.end_ms == 900 + -(-len(text) * 1000 // MAX_CHARS_PER_S)


def test_words_without_width_fill_a_cue_too() -> None:
    accents = tuple(Word("\u0301", 0.0, 0.0, 1.0) for _ in range(500))
    result = cues(transcript(Segment(0.0, 1.0, (Hypothesis("", -1, -1),), accents)))
    assert all(len(line) <= MAX_LINE_CHARS for cue in result for line in cue.lines)
    assert sum(line.count("\u0301") for cue in result for line in cue.lines) == 500


def test_a_small_gap_is_closed_and_a_large_one_stays() -> None:
    long = "nobody knew where the old man had gone to that day, or why"
    end_ms = round(0.3 * 1000 * len(long.split()))
    for gap_ms, ends_ms in ((400, end_ms + 400 - GAP_MS), (3000, end_ms)):
        first, second = cues(transcript(spoken(long), spoken(long, (end_ms + gap_ms) / 1000)))
        assert (first.end_ms, second.start_ms) == (ends_ms, end_ms + gap_ms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "He came home late that evening, tired and hungry. Nobody had waited for him all day.",
            [
                ("He came home late that evening,", "tired and hungry."),
                ("Nobody had waited for him all day.",),
            ],
            id="sentence",
        ),
        pytest.param("Yes. No. Maybe.", [("Yes. No. Maybe.",)], id="short sentences share a cue"),
        pytest.param(
            "one two three four five six seven eight nine ten eleven twelve, "
            "thirteen fourteen fifteen sixteen",
            [
                ("one two three four five six", "seven eight nine ten eleven twelve,"),
                ("thirteen fourteen fifteen sixteen",),
            ],
            id="clause",
        ),
        pytest.param(
            "the members of the committee walked slowly back into the dark old building",
            [],
            id="a line does not end with an article",
        ),
        pytest.param(
            "she was looking for something else entirely when Mr. Jones came in from the garden",
            [],
            id="a title stays with its name",
        ),
    ],
)
def test_cues_and_lines_end_at_phrases(text: str, expected: list[tuple[str, ...]]) -> None:
    result = shown(spoken(text, word_s=0.36))
    joined = [" ".join(lines) for lines in result]
    assert " ".join(joined) == text
    for line in (line for lines in result for line in lines):
        assert not line.endswith((" the", "Mr.", " of"))
    if expected:
        assert joined == [" ".join(lines) for lines in expected]


def test_a_long_pause_ends_a_cue_and_a_short_one_is_a_good_place() -> None:
    pause_s = LONG_PAUSE_MS / 1000 + 0.01
    assert shown(spoken("one two"), spoken("three", 0.6 + pause_s)) == [("one two",), ("three",)]
    text = "we went down to the river _ _ my brother and I had a boat there once"
    assert shown(spoken(text, word_s=0.35)) == [
        ("we went down to the river",),
        ("my brother and I had a boat there once",),
    ]


def test_one_word_is_alone_only_if_nobody_speaks_around_it() -> None:
    text = "Yes. _ I think that would be a very good thing to do."
    assert all(len(" ".join(lines).split()) > 1 for lines in shown(spoken(text)))
    assert shown(spoken("Yes.")) == [("Yes.",)]


def test_channels_have_their_own_cues_which_may_overlap() -> None:
    result = cues(
        transcript(
            spoken("Hello, who is it?", channel=1),
            spoken("It is me.", 1.0, channel=2),
            spoken("From Leeds.", 4.0, channel=2),
            replace(silent("Ah.", 6.0, 6.5), channel=1),
            channels=2,
        )
    )
    assert result == [
        Cue(0, 1236, ("[1] Hello, who is it?",)),
        Cue(1000, 2000, ("[2] It is me.",)),
        Cue(4000, 5000, ("From Leeds.",)),
        Cue(6000, 7000, ("[1] Ah.",)),
    ]


def test_the_lines_of_a_call_are_as_short_as_others() -> None:
    result = shown(spoken("word " * 60, channel=1), spoken("", channel=2))
    answers = (spoken("Oh.", at, channel=2) for at in (1.0, 5.0))
    called = cues(transcript(spoken("word " * 60, channel=1), *answers, channels=2))
    assert len(called) >= len(result) > 1
    for before, cue in pairwise(called):
        is_answer, was_answer = (item.lines[0].endswith("Oh.") for item in (cue, before))
        begins = ("[2] " if is_answer else "[1] ") if is_answer != was_answer else ""
        assert cue.lines[0].startswith(begins + ("Oh." if is_answer else "word"))
        assert all(columns(line) <= MAX_LINE_CHARS for line in cue.lines)
    assert {cue.lines[0].partition(" ")[0] for cue in called} >= {"[1]", "[2]", "word"}


def test_a_speaker_is_named_where_he_changes() -> None:
    turns = [("A", "word " * 40), ("A", "Yes, I did."), ("Bartholomew", "word " * 30)]
    clock, segments = 0.0, []
    for who, text in turns:
        segments.append(replace(spoken(text, clock), speaker=who))
        clock = segments[-1].end + 2.0
    result = cues(transcript(*segments))
    named = [cue for cue in result if ": " in cue.lines[0]]
    assert [cue.lines[0].partition(" ")[0] for cue in named] == ["A:", "Bartholomew:"]
    assert [cue.speaker for cue in named] == ["A", "Bartholomew"]
    assert named[0] is result[0]
    assert named[1].start_ms == round(segments[2].start * 1000)
    assert all(columns(line) <= MAX_LINE_CHARS for cue in result for line in cue.lines)
    # What has no name has its room.
    assert max(columns(cue.lines[0]) for cue in result[-2:]) > MAX_LINE_CHARS - columns("word ")


def test_words_without_times_share_those_of_their_segment() -> None:
    result = cues(transcript(silent("word " * 40, 1.5, 21.5)))
    assert (result[0].start_ms, result[-1].end_ms) == (1500, 21500)
    assert all(len(cue.lines) <= MAX_LINES for cue in result)
    assert all(MIN_CUE_MS <= cue.end_ms - cue.start_ms <= MAX_CUE_MS for cue in result)
    assert cues(transcript(silent("  ", 0, 1))) == []
    assert len(cues(transcript(silent("\u0301", 0, 1)))) == 1


def test_wide_characters_count_two() -> None:
    text = "今天天气很好我们一起去公园玩吧然后晚上回家吃饭再看一部很长很长的电影最后早点睡觉"
    result = cues(transcript(silent(text, 0.0, 10.0)))
    assert "".join(line for cue in result for line in cue.lines) == text
    assert all(columns(line) <= MAX_LINE_CHARS for cue in result for line in cue.lines)
    assert max(len(line) for cue in result for line in cue.lines) > MAX_LINE_CHARS // 4


def test_text_of_a_script_without_spaces_has_none() -> None:
    words = [Word(text, index * 0.4, index * 0.4 + 0.4, 1.0) for index, text in enumerate("我用")]
    words.append(Word("Python", 0.8, 1.4, 1.0))
    words.append(Word("写。", 1.4, 1.8, 1.0))
    first = Segment(0, 2, (Hypothesis("我用 Python写。", -1, -1),), tuple(words))
    second = Segment(2, 3, (Hypothesis("好", -1, -1),), (Word("好", 2.1, 2.4, 1.0),))
    assert shown(first, second) == [("我用 Python写。好",)]


def test_pieces_of_a_text() -> None:
    assert pieces_of("“我用Python, 你好。”") == ["“我", "用", "Python,", "你", "好。”"]
    assert pieces_of("สวัสดี ok") == ["ส", "วั", "ส", "ดี", "ok"]


def test_what_belongs_together_in_scripts_without_spaces() -> None:
    assert pieces_of("《书》（笑）说“Go”！") == ["《书》", "（笑）", "说", "“Go”！"]  # noqa: RUF001
    assert pieces_of("そうだ。って") == ["そ", "う", "だ。", "っ", "て"]
    assert pieces_of("ラーメン待って人々") == ["ラー", "メ", "ン", "待っ", "て", "人々"]
    assert pieces_of("เก็บน้ำแล้วๆ") == ["เก็", "บ", "น้ำ", "แล้", "วๆ"]
    assert pieces_of("(well) half-(way ((x) 5") == ["(well)", "half-(way", "((x)", "5"]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.text("ab1 ,.“”（）「」我好ラーっ々เกำ็แ😀\u0301\n", max_size=40))  # noqa: RUF001
def test_pieces_have_all_of_a_text_in_order(text: str) -> None:
    pieces = pieces_of(text)
    assert "".join(pieces) == "".join(text.split())
    result = cues(transcript(silent(text, 0.0, 20.0)))
    assert "".join("".join(cue.lines) for cue in result).replace(" ", "") == "".join(pieces)
    assert all(one.end_ms <= other.start_ms for one, other in pairwise(result))


LETTERS = st.sampled_from(["a", "bc", "def", "ghijk", "lmnopqrst", "uvwxyzabcdefgh", "x" * 60])
CHINESE = st.sampled_from(list("今天气很好我们去公园玩"))
WORDS = st.tuples(
    st.one_of(LETTERS, LETTERS, CHINESE),
    st.sampled_from(["", "", "", ",", ".", "?", "。"]),
    st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 3.0, 12.0]),
    st.sampled_from([0.0, 0.0, 0.0, 0.2, 0.6, 0.9, 2.5]),
    st.floats(-0.2, 0.1),
)


@st.composite
def transcripts(draw: st.DrawFn) -> Transcript:
    """Words of all lengths and times that are sometimes impossible, as alignments can be."""
    clock, segments = 0.0, []
    for items in draw(st.lists(st.lists(WORDS, max_size=30), max_size=4)):
        words = []
        for letters, mark, length, pause, shift in items:
            words.append(Word(letters + mark, clock + shift, clock + length, 0.5))
            clock += length + pause
        text = " ".join(word.text for word in words)
        start = words[0].start if words else clock
        segments.append(Segment(start, clock, (Hypothesis(text, -1, -1),), tuple(words)))
    return transcript(*segments)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(transcripts())
def test_what_holds_for_any_words(said: Transcript) -> None:
    result = cues(said)
    text = "".join("".join(cue.lines) for cue in result)
    assert text.replace(" ", "") == "".join(word.text for word in said.words)
    assert all(0 <= cue.start_ms < cue.end_ms <= cue.start_ms + MAX_CUE_MS for cue in result)
    assert all(one.end_ms <= other.start_ms for one, other in pairwise(result))
    for cue in result:
        assert 1 <= len(cue.lines) <= MAX_LINES
        assert all(columns(line) <= MAX_LINE_CHARS or " " not in line for line in cue.lines)

    ended = replace(said, duration=1.0 + max((word.start for word in said.words), default=0.0))
    assert all(cue.start_ms < cue.end_ms <= ended.duration * 1000 for cue in cues(ended))
    short = replace(said, duration=1.0)
    assert all(cue.start_ms < cue.end_ms <= 1000 for cue in cues(short))
    assert all(one.end_ms <= other.start_ms for one, other in pairwise(cues(short)))

    # The next cue comes at once only where there is no time for a gap.
    for one, other in pairwise(result):
        assert other.start_ms - one.end_ms >= GAP_MS or other.start_ms - one.start_ms <= 2 * GAP_MS


def block_of(items: list[tuple[str, str, float, float, float]]) -> tuple[list[SpacedWord], Block]:
    """Words without a long pause, and what cuts them."""
    clock = 0
    tokens: list[SpacedWord] = []
    for letters, mark, length, pause, _ in items:
        end = clock + 1 + round(length * 1000)
        tokens.append(SpacedWord(" " if tokens else "", letters + mark, clock, end))
        clock = end + min(round(pause * 1000), LONG_PAUSE_MS)
    return tokens, Block(tokens, inf, (0, 0), inf)


def every_cut(block: Block, count: int) -> list[list[tuple[int, int]]]:
    """All ways to cut words into runs that fit."""
    cuttings = []
    for cuts in product((False, True), repeat=count - 1):
        edges = [0, *(index for index, cut in enumerate(cuts, 1) if cut), count]
        runs = list(pairwise(edges))
        if all(block.fits(*run) for run in runs):
            cuttings.append(runs)
    return cuttings


def chosen_cut(tokens: list[SpacedWord]) -> list[tuple[int, int]]:
    starts = {cue.start_ms for cue in channel_cues(tokens, (0, 0))}
    edges = [index for index, token in enumerate(tokens) if token.start_ms in starts]
    return list(pairwise([*edges, len(tokens)]))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(WORDS, min_size=1, max_size=9))
def test_no_other_cut_costs_less(items: list[tuple[str, str, float, float, float]]) -> None:
    tokens, block = block_of(items)
    costs = [sum(block.cost(*run) for run in runs) for runs in every_cut(block, len(tokens))]
    chosen = sum(block.cost(*run) for run in chosen_cut(tokens))
    assert chosen == pytest.approx(min(costs))


SAID_SLOWLY = st.tuples(
    st.sampled_from(["a", "bc", "def", "ghij"]),
    st.sampled_from(["", "", ",", "."]),
    st.sampled_from([0.4, 0.5, 0.7]),
    st.sampled_from([0.0, 0.0, 0.2, 0.6, 0.9]),
    st.just(0.0),
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(SAID_SLOWLY, min_size=1, max_size=9))
def test_limits_hold_wherever_they_can(
    items: list[tuple[str, str, float, float, float]],
) -> None:
    tokens, block = block_of(items)

    def broken(runs: list[tuple[int, int]]) -> int:
        """How many cues have one word, are short, or are faster than a reader."""
        count = 0
        for start, end in runs:
            shown_ms = block.end_ms(start, end) - tokens[start].start_ms
            width = sum(columns(token.text) + 1 for token in tokens[start:end]) - 1
            count += end - start == 1
            count += shown_ms < MIN_CUE_MS
            count += width * 1000 > MAX_CHARS_PER_S * shown_ms
        return count

    least = min(map(broken, every_cut(block, len(tokens))))
    assert broken(chosen_cut(tokens)) == least


def test_words_without_any_time_have_cues() -> None:
    words = " ".join(f"word{number}" for number in range(600))
    segment = Segment(0.0, 300.0, (Hypothesis(words, 0.0, 0.0),))
    made = cues(Transcript((Hypothesis(words, 0.0, 0.0),), (segment,), 0.3, (), {}))
    assert words.split() == " ".join(line for cue in made for line in cue.lines).split()
    assert all(0 <= cue.start_ms <= cue.end_ms for cue in made)
