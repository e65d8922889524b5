import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from transcripts import silent, spoken, transcript

from conch.wire.formats import FORMATS, to_json, to_srt, to_text, to_webvtt
from conch.wire.parts import with_turns
from conch.wire.result import Channel, Hypothesis, Segment, Stage, Transcript, Turn, Word
from conch.wire.subtitles import cues


def test_text_is_the_best_hypothesis_on_a_line() -> None:
    assert to_text(transcript(spoken("Hello there."))) == "Hello there.\n"
    assert to_text(transcript()) == "\n"


def test_a_monologue_has_paragraphs_with_empty_lines_between_them() -> None:
    segments = spoken("One. Two."), spoken("Three.", start=5.0)
    assert to_text(transcript(*segments)) == "One. Two.\n\nThree.\n"
    # A live answer may have the last segments and the whole text.
    whole = replace(transcript(*segments), nbest=(Hypothesis("Zero. One. Two. Three.", -1, -1),))
    assert to_text(whole) == "Zero. One. Two. Three.\n"


def call() -> Transcript:
    """Two people on two channels, who speak at once where one answers."""
    turns = [
        (1, spoken("Hello, who is it?")),
        (2, spoken("It is me.", start=1.0)),
        (2, spoken("From Leeds.", start=4.0)),
        (1, silent("Ah.", 6.0, 6.5)),
    ]
    segments = [replace(segment, channel=channel) for channel, segment in turns]
    channels = (Channel(1, "Hello, who is it? Ah.", -2.0), Channel(2, "It is me. From Leeds.", -2))
    return replace(transcript(*segments), channels=channels)


def test_the_text_of_a_call_has_a_line_for_each_turn() -> None:
    assert to_text(call()) == "[1] Hello, who is it?\n[2] It is me. From Leeds.\n[1] Ah.\n"


def test_a_long_turn_has_a_line_for_each_paragraph() -> None:
    segments = [spoken("One."), spoken("Two.", start=5.0), spoken("Three.", start=6.0)]
    called = [replace(it, speaker=who) for it, who in zip(segments, "AAB", strict=True)]
    assert to_text(transcript(*called)) == "A: One.\nA: Two.\nB: Three.\n"


def test_one_channel_alone_has_no_number() -> None:
    segment = replace(spoken("Hello."), channel=2)
    alone = replace(transcript(segment), channels=(Channel(2, "Hello.", -1.0),))
    assert to_text(alone) == "Hello.\n"
    assert cues(alone)[0].lines == ("Hello.",)


def test_a_turn_is_joined_as_its_script_wants() -> None:
    turns = [replace(spoken(text), channel=1) for text in ("你好。", "我用 Python")]
    channels = (Channel(1, "", -1.0), Channel(2, "", -1.0))
    assert to_text(replace(transcript(*turns), channels=channels)) == "[1] 你好。我用 Python\n"


def test_json_is_one_line_that_reads_back() -> None:
    original = transcript(spoken("Grüße, “world”."))
    text = to_json(original, file="a.wav")
    assert text.count("\n") == 1
    assert list(json.loads(text))[:2] == ["file", "text"]
    assert "Grüße" in text
    assert Transcript.from_json(text) == original


def test_json_says_nothing_twice_and_nothing_empty() -> None:
    best = Hypothesis("good day", -0.5, -1.0, -9.0, 2)
    original = Transcript(
        nbest=(best,),
        # As after rescoring, which looks at more hypotheses than are asked for.
        segments=(Segment(0.0, 1.0, (best, Hypothesis("good dé", -1.5, -1.5))),),
        duration=2.0,
        path=("vad",),
        stages={"total": Stage(1, 3.0)},
    )
    scores = {"score": -0.5, "am_score": -1.0, "lm_score": -9.0, "num_words": 2}
    assert json.loads(to_json(original)) == {
        "text": "good day",
        **scores,
        "segments": [{"text": "good day", **scores, "start": 0.0, "end": 1.0}],
        "duration": 2.0,
        "path": ["vad"],
        "stages": {"total": {"calls": 1, "ms": 3.0}},
    }


def test_json_of_an_n_best_list_has_alternatives() -> None:
    both = Hypothesis("good day", -0.5, -1.0), Hypothesis("good dé", -1.5, -1.5)
    third = Hypothesis("goody", -2.5, -2.5)
    original = Transcript(both, (Segment(0.0, 1.0, (*both, third)),), 2.0, ("vad",), {})
    text = to_json(original, indent=2)
    data = json.loads(text)
    for item in (data, data["segments"][0]):
        assert item["text"] == "good day"
        assert item["alternatives"] == [{"text": "good dé", "score": -1.5, "am_score": -1.5}]
        assert "nbest" not in item
    assert text.startswith('{\n  "text": "good day",\n')
    assert Transcript.from_json(text).nbest == both


def test_json_of_silence() -> None:
    silent = Transcript((Hypothesis("", 0.0, 0.0),), (), 2.0, ("vad",), {})
    assert json.loads(to_json(silent))["segments"] == []
    assert Transcript.from_json(to_json(silent)) == silent


def test_srt() -> None:
    segments = spoken("Hello there."), silent("And --> bye.", 359999.9996, 360001.5)
    assert to_srt(transcript(*segments)) == (
        "1\n00:00:00,000 --> 00:00:01,000\nHello there.\n\n"
        "2\n100:00:00,000 --> 100:00:01,500\nAnd -> bye.\n\n"
    )


def test_no_line_of_srt_looks_like_times() -> None:
    text = to_srt(transcript(spoken("---> is --> and ------>")))
    assert text.split("\n")[2] == "-> is -> and ->"


def test_webvtt_escapes_what_would_be_markup() -> None:
    assert to_webvtt(transcript(spoken('R&D <i> --> "x"'))) == (
        'WEBVTT\n\n00:00:00.000 --> 00:00:01.200\nR&amp;D &lt;i&gt; --&gt; "x"\n\n'
    )


def test_srt_names_a_speaker_where_he_changes_and_webvtt_each_voice() -> None:
    segments = [spoken("Yes.", at) for at in (0.0, 5.0, 10.0)]
    called = [replace(it, speaker=who) for it, who in zip(segments, "AAB", strict=True)]
    written = transcript(*called, duration=20.0)
    assert to_srt(written).split("\n")[2::4] == ["A: Yes.", "Yes.", "B: Yes."]
    assert to_webvtt(written).split("\n")[3::3] == ["<v A>Yes.", "<v A>Yes.", "<v B>Yes."]


def test_no_speech() -> None:
    assert to_srt(transcript()) == ""
    assert to_webvtt(transcript(silent("  ", 0, 1))) == "WEBVTT\n\n"


TIMES = re.compile(r"(\d{2,}):(\d\d):(\d\d)[,.](\d{3}) --> (\d{2,}):(\d\d):(\d\d)[,.](\d{3})")


def milliseconds(hours: str, minutes: str, seconds: str, ms: str) -> int:
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1000 + int(ms)


@pytest.mark.parametrize("write", [to_srt, to_webvtt])
def test_written_times_are_the_cues(write: Callable[[Transcript], str]) -> None:
    long = transcript(spoken("one two, three. " * 40), spoken("four", start=3590.0, word_s=90.0))
    read = [
        (milliseconds(*match.groups()[:4]), milliseconds(*match.groups()[4:]))
        for match in TIMES.finditer(write(long))
    ]
    assert read == [(cue.start_ms, cue.end_ms) for cue in cues(long)]
    assert len(read) > 3


def segment(who: str, start: float, *texts: str) -> Segment:
    words = tuple(
        Word(text, start + index, start + index + 0.8, 0.5, who) for index, text in enumerate(texts)
    )
    best = Hypothesis(" ".join(texts), -1.0, -1.0)
    return Segment(start, start + len(texts), (best,), words, speaker=who)


SEGMENTS = (
    segment("A", 0.0, "Who", "is", "it?"),
    segment("A", 4.0, "Well?"),
    segment("B", 5.0, "<Me>,", "of", "course."),
)
TURNS = (Turn("A", 0.0, 5.25), Turn("B", 5.0, 8.0))
TALK = with_turns(
    Transcript((Hypothesis("Who is it? Well? <Me>, of course.", -3, -3),), SEGMENTS, 8.0, (), {}),
    TURNS,
)


def test_text_has_a_line_for_each_turn() -> None:
    assert to_text(TALK) == "A: Who is it? Well?\nB: <Me>, of course.\n"


def test_a_cue_has_one_speaker() -> None:
    blocks = to_srt(TALK).strip().split("\n\n")
    assert [block.split("\n")[2] for block in blocks] == [
        "A: Who is it?",
        "Well?",
        "B: <Me>, of course.",
    ]
    voices = [line for line in to_webvtt(TALK).split("\n") if line.startswith("<v ")]
    assert voices[0].startswith("<v A>Who is it?")
    assert voices[-1] == "<v B>&lt;Me&gt;, of course."
    times = [line.split(" --> ") for line in to_webvtt(TALK).split("\n") if "-->" in line]
    assert all(end <= start for (_, end), (start, _) in pairwise(times))


def test_scorers_get_turns_and_words() -> None:
    assert FORMATS["rttm"](TALK, "talk.wav") == (
        "SPEAKER talk 1 0.000 5.250 <NA> <NA> A <NA> <NA>\n"
        "SPEAKER talk 1 5.000 3.000 <NA> <NA> B <NA> <NA>\n"
    )
    assert FORMATS["rttm"](replace(TALK, turns=()), "talk").count("\n") == 3, "of the segments"
    assert FORMATS["rttm"](replace(TALK, turns=(), segments=()), "talk") == ""
    assert json.loads(FORMATS["seglst"](TALK, "talk.wav"))[2] == {
        "session_id": "talk",
        "speaker": "B",
        "start_time": 5.0,
        "end_time": 8.0,
        "words": "<Me>, of course.",
    }
    assert "talk A B 5.000 8.000 <o> <Me>, of course.\n" in FORMATS["stm"](TALK, "talk.wav")
