"""What a viewer of live streams sees; tests with a server are in integration."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from live_samples import answer, sample

from conch.bench.figures import Script, Shown, live_run
from conch.bench.live import LiveBenchmark, scripts
from conch.scoring.error_rates import ENGLISH_WORDS, Scoring
from conch.wire.result import Hypothesis, OpenUtterance, RollingPasses, Segment, Word
from lab.alignment import TimedWord
from lab.live.benchmark import offline_wer, words_of
from lab.live.figures import ViewedRun, ViewerRecord, viewed
from lab.live.word_times import timed_words

BENCHMARK = LiveBenchmark(manifest=Path("none"), seconds=4.0, pause_s=0.5)


def seen(
    records: Sequence[ViewerRecord],
    words: Sequence[Sequence[TimedWord]],
    scoring: Scoring = ENGLISH_WORDS,
    used_s: Mapping[str, float] | None = None,
) -> ViewedRun:
    """Return the figures of streams in chunks of 640 ms."""
    return viewed(live_run(records, 640, scoring), records, words, scoring, used_s)


def test_an_offline_path_that_fails_beside_the_streams_is_said_and_costs_no_figure(capsys):
    said = scripts([sample("one", 1.0)], 2, BENCHMARK)
    # No server listens on the discard port.
    assert offline_wer("127.0.0.1:9", said, BENCHMARK) is None
    assert "offline WER of 2 streams is not known: " in capsys.readouterr().err


def test_the_second_pass_counts_from_the_answer_that_tells_the_end():
    record = ViewerRecord(Script(np.zeros(1, np.float32), 16_000, ((0.0, 9.0),), "a b c"), True)

    def ended(index, passes, error=""):
        nbest = (Hypothesis("a", 0, 0),)
        return Segment(0.0, 2.0, nbest, index=index, passes=passes, error=error)

    record.see(answer("a", ended(0, 1)), 3.0)
    record.see(answer("a a", ended(0, 2), ended(1, 2)), 3.5)
    record.see(answer("a a a", ended(2, 1, error="busy")), 4.0)
    # The last answer has all segments again.
    record.see(answer("a a a", ended(0, 2), ended(1, 2), ended(2, 1, error="busy")), 5.0)
    assert record.after_endpoint_s == [0.5, 0.0]


def spoken(text: str) -> tuple[TimedWord, ...]:
    """Return words of half a second, one a second: the first ends at 1 s."""
    return tuple(
        TimedWord(word, end - 0.5, float(end)) for end, word in enumerate(text.split(), start=1)
    )


def test_a_run_tells_what_a_viewer_sees():
    script = Script(np.zeros(16_000, np.float32), 16_000, ((0.0, 5.0),), "a b c d")
    record, gone = (ViewerRecord(script, True) for _ in range(2))
    gone.error = "gone"

    def open_answer(firm, rest, made):
        words = [tuple(Word(word, 0.0, 0.0, 1.0) for word in part.split()) for part in (firm, rest)]
        return replace(
            answer(f"{firm} {rest}".strip()),
            utterance=OpenUtterance(0.0, *words),
            rolling=RollingPasses(500, made, 2, 1, late_ms=100 * made),
        )

    record.see(open_answer("", "a", 0), 1.5)
    record.see(open_answer("a", "x", 1), 2.5)
    record.see(open_answer("a x", "c", 1), 3.5)
    record.see(open_answer("a x", "c d", 2), 4.5)
    segment = Segment(0.0, 5.0, (Hypothesis("a b c d", 0, 0),), passes=2)
    record.see(replace(answer("a b c d", segment), is_final=True), 6.0)
    run = seen([record, gone], [spoken("a b c d")] * 2, used_s={"speech": 0.1, "vad": 0.3})
    # After 2 s "b" is still "x", and "c" and "d" are right.
    assert run.screen_wer_2s == 0.25
    assert run.after_endpoint_ms.p50 == 0
    assert (run.rolling.made, run.rolling.skipped) == (2, 2)
    assert run.orchestration_share == 0.25


def test_a_server_without_rolling_passes_and_a_script_without_times_have_no_such_figures():
    script = Script(np.zeros(16_000, np.float32), 16_000, ((0.0, 1.0),), "a b")
    record = ViewerRecord(script, False)
    newest = tuple(Word(word, 0.0, 0.0, 1.0) for word in ("a", "b"))
    record.see(replace(answer("a b"), utterance=OpenUtterance(0.0, (), (), newest)), 0.5)
    run = seen([record], [()])
    assert (run.screen_wer_2s, run.rolling, run.orchestration_share) == (None, None, None)


def test_the_cpu_counts_by_chunk():
    record = ViewerRecord(Script(np.zeros(16_000, np.float32), 16_000, ((0.0, 1.0),), "a"), False)
    record.chunk_s = [0.1, 0.1]
    record.see(answer("a"), 0.5)
    run = seen([record], [()], used_s={"speech": 0.1, "tritonserver": 0.15, "vad": 0.75})
    assert run.cpu_ms_per_chunk_by_process["speech"] == 50
    assert run.orchestration_share == 0.25


def test_the_words_of_a_script_are_on_its_clock():
    samples = [sample("one", 1.0), sample("two", 2.0)]
    times = {
        index: (TimedWord(item.utterance.text, 0.2, 0.6),) for index, item in enumerate(samples)
    }
    for script in scripts(samples, 2, BENCHMARK):
        found = words_of(script, times)
        assert " ".join(word.text for word in found) == script.text
        for word, (start, _) in zip(found, script.spans, strict=True):
            assert (word.start_s, word.end_s) == (start + 0.2, start + 0.6)
    assert words_of(script, {}) == []


def test_characters_count_on_the_screen_where_they_count_in_the_text():
    characters = Scoring.of("auto", "zh")
    script = Script(np.zeros(48_000, np.float32), 16_000, ((0.0, 3.0),), "今天好", (0,))
    record = ViewerRecord(script, False)
    record.chunk_s, record.text = [0.1], "今天 坏"
    record.shown.append(Shown(1.5, (), "今天 坏", "", is_last=True))
    run = seen([record], [timed_words("今天好", (), 3.0, characters)], characters)
    assert run.run.wer == run.screen_wer_2s == pytest.approx(1 / 3, abs=1e-6)
