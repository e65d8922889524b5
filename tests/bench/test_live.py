"""Scripts and figures of live streams; tests with a server are in integration."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conch.bench.live import (
    LiveBenchmark,
    largest,
    offline_wer,
    scoring_of,
    scripts,
    warm_up,
    with_words,
)
from conch.bench.live_figures import Script, StreamOutcome, Watch, figures
from conch.bench.manifest import Utterance
from conch.bench.measures import Scoring
from conch.bench.samples import Sample
from conch.bench.shown import Shown
from conch.bench.word_times import TimedWord, timed_words
from conch.wire.errors import BenchError
from conch.wire.result import (
    Hypothesis,
    OpenUtterance,
    RollingPasses,
    Segment,
    Transcript,
    Word,
)

BENCHMARK = LiveBenchmark(manifest=Path("none"), seconds=4.0, pause_s=0.5)


def sample(text: str, seconds: float, rate: int = 16_000) -> Sample:
    waveform = np.full(round(seconds * rate), 0.1, np.float32)
    return Sample(Utterance(Path(text), text), waveform, rate, seconds)


def answer(text: str, *segments: Segment) -> Transcript:
    nbest = (Hypothesis(text, 0.0, 0.0),)
    return Transcript(nbest, segments, 0.0, (), {}, is_final=False)


def test_streams_say_utterances_in_turn_with_pauses():
    said = scripts([sample("one", 1.0), sample("two", 2.0)], 3, BENCHMARK)
    assert len(said) == 3
    for script in said:
        assert len(script.waveform) >= 4.0 * 16_000
        for start, end in script.spans:
            assert script.waveform[round(start * 16_000) : round(end * 16_000)].min() > 0
            assert not script.waveform[round(end * 16_000) : round((end + 0.5) * 16_000)].any()
        assert len(script.text.split()) == len(script.spans)


def test_streams_warm_up_by_their_first_seconds(monkeypatch):
    sent = []

    async def all_streams(url, said, benchmark, label):
        sent.append([len(script.waveform) for script in said])

    monkeypatch.setattr("conch.bench.live.all_streams", all_streams)
    said = scripts([sample("one", 1.0), sample("two", 2.0)], 3, BENCHMARK)
    warm_up("none", said, replace(BENCHMARK, warmup_s=0.0))
    assert sent == []
    warm_up("none", said, replace(BENCHMARK, warmup_s=1.5))
    assert sent == [[24_000] * 3]


def test_an_offline_path_that_fails_beside_the_streams_is_said_and_costs_no_figure(capsys):
    said = scripts([sample("one", 1.0)], 2, BENCHMARK)
    # No server listens on the discard port.
    assert asyncio.run(offline_wer("127.0.0.1:9", said, BENCHMARK)) is None
    assert "offline WER of 2 streams is not known: " in capsys.readouterr().err


def test_a_stream_has_one_sample_rate():
    with pytest.raises(BenchError, match=r"found: \[8000, 16000\]"):
        scripts([sample("one", 1.0), sample("two", 1.0, 8000)], 1, BENCHMARK)


def test_partials_and_finals_are_seen_when_they_come():
    outcome = StreamOutcome(
        Script(np.zeros(1, np.float32), 16_000, ((0.0, 2.0), (3.5, 5.0)), "a b")
    )
    watch = Watch(outcome, has_second_pass=True)
    first = Segment(0.0, 2.2, (Hypothesis("a", 0, 0),), index=0)
    watch.see(answer(""), 0.7)
    watch.see(answer("a"), 1.3)
    watch.see(answer("a", first), 3.2)  # not final yet
    watch.see(answer("a", Segment(0.0, 2.2, first.nbest, index=0, passes=2)), 3.8)
    watch.see(answer("a b"), 4.6)
    assert outcome.first_partial_s == [1.3, pytest.approx(1.1)]
    assert outcome.final_s == [pytest.approx(1.8)]


def test_words_of_a_second_pass_are_not_the_first_text_of_the_next_utterance():
    outcome = StreamOutcome(
        Script(np.zeros(1, np.float32), 16_000, ((0.0, 2.0), (3.5, 5.0)), "a b")
    )
    watch = Watch(outcome, has_second_pass=True)
    hypotheses = (Hypothesis("a more", 0, 0),)
    watch.see(answer("a"), 1.3)
    watch.see(answer("a", Segment(0.0, 2.2, (Hypothesis("a", 0, 0),), index=0)), 3.2)
    watch.see(answer("a more", Segment(0.0, 2.2, hypotheses, index=0, passes=2)), 3.6)
    assert outcome.first_partial_s == [1.3]
    watch.see(answer("a more b"), 4.6)
    assert outcome.first_partial_s == [1.3, pytest.approx(1.1)]


def test_an_utterance_that_was_never_open_has_its_first_text_at_its_end():
    outcome = StreamOutcome(Script(np.zeros(1, np.float32), 16_000, ((0.5, 2.0),), "a"))
    watch = Watch(outcome, has_second_pass=False)
    watch.see(answer("a", Segment(0.5, 2.2, (Hypothesis("a", 0, 0),), index=0)), 3.2)
    assert outcome.first_partial_s == [pytest.approx(2.7)]


def test_the_second_pass_counts_from_the_answer_that_tells_the_end():
    outcome = StreamOutcome(Script(np.zeros(1, np.float32), 16_000, ((0.0, 9.0),), "a b c"))
    watch = Watch(outcome, has_second_pass=True)

    def ended(index, passes, error=""):
        nbest = (Hypothesis("a", 0, 0),)
        return Segment(0.0, 2.0, nbest, index=index, passes=passes, error=error)

    watch.see(answer("a", ended(0, 1)), 3.0)
    watch.see(answer("a a", ended(0, 2), ended(1, 2)), 3.5)
    watch.see(answer("a a a", ended(2, 1, error="busy")), 4.0)
    # The last answer has all segments again.
    watch.see(answer("a a a", ended(0, 2), ended(1, 2), ended(2, 1, error="busy")), 5.0)
    assert outcome.after_endpoint_s == [0.5, 0.0]


def spoken(text: str) -> tuple[TimedWord, ...]:
    """Return words of half a second, one a second: the first ends at 1 s."""
    return tuple(
        TimedWord(word, end - 0.5, float(end)) for end, word in enumerate(text.split(), start=1)
    )


def test_a_run_tells_what_a_viewer_sees():
    script = Script(
        np.zeros(16_000, np.float32), 16_000, ((0.0, 5.0),), "a b c d", words=spoken("a b c d")
    )
    outcome = StreamOutcome(script, text="a b c d")
    watch = Watch(outcome, has_second_pass=True)

    def open_answer(firm, rest, made, interval_ms=500):
        words = [tuple(Word(word, 0.0, 0.0, 1.0) for word in part.split()) for part in (firm, rest)]
        return replace(
            answer(f"{firm} {rest}".strip()),
            utterance=OpenUtterance(0.0, *words),
            rolling=RollingPasses(interval_ms, made, 2, 1, late_ms=100 * made),
        )

    watch.see(open_answer("", "a", 0, interval_ms=0), 1.5)
    watch.see(open_answer("a", "x", 1), 2.5)
    watch.see(open_answer("a x", "c", 1), 3.5)
    watch.see(open_answer("a x", "c d", 2, interval_ms=1000), 4.5)
    segment = Segment(0.0, 5.0, (Hypothesis("a b c d", 0, 0),), passes=2)
    watch.see(replace(answer("a b c d", segment), is_final=True), 6.0)
    run = figures([outcome, StreamOutcome(script, error="gone")], 640, {"speech": 0.5})
    # After 1 s "b" is still "x"; after 2 s too, and "c" and "d" are right.
    assert (run.screen_wer_1s, run.screen_wer_2s) == (0.25, 0.25)
    # "a" at 2.5 s, "c" and "d" at 6 s; "x" is no reference word.
    assert run.firm_lag_ms.mean == pytest.approx(1000 * (1.5 + 3.0 + 2.0) / 3, abs=0.01)
    assert (run.revised_share, run.firm_revised_share) == (0.25, 0.5)
    assert run.after_endpoint_ms.p50 == 0
    assert (run.rolling.made, run.rolling.skipped, run.rolling.refused) == (2, 2, 1)
    # Answers without a new pass repeat how late the last one was.
    assert (run.rolling.interval_ms, run.rolling.late_ms.mean) == (666.7, 150)
    assert run.cpu_s_per_audio_s == 0.25


def test_a_server_that_tells_no_rolling_passes_and_a_script_without_times_have_no_such_figures():
    script = Script(np.zeros(16_000, np.float32), 16_000, ((0.0, 1.0),), "a b")
    outcome = StreamOutcome(script, text="a b")
    Watch(outcome, has_second_pass=False).see(answer("a b"), 0.5)
    run = figures([outcome], 640, None)
    assert (run.screen_wer_1s, run.rolling, run.cpu_s_per_audio_s) == (None, None, None)
    assert (run.firm_lag_ms.p50, run.revised_share) == (None, 0)


def test_the_words_of_a_script_are_on_its_clock():
    samples = [sample("one", 1.0), sample("two", 2.0)]
    times = {
        index: (TimedWord(item.utterance.text, 0.2, 0.6),) for index, item in enumerate(samples)
    }
    for script in scripts(samples, 2, BENCHMARK):
        found = with_words(script, times)
        assert " ".join(word.text for word in found.words) == script.text
        for word, (start, _) in zip(found.words, script.spans, strict=True):
            assert (word.start_s, word.end_s) == (start + 0.2, start + 0.6)
    assert with_words(script, {}).words == ()


def test_telephone_streams_are_at_8_khz_and_keep_their_times():
    samples = [sample("one", 1.0), sample("two", 2.0)]
    clear = scripts(samples, 2, BENCHMARK)
    calls = scripts(samples, 2, replace(BENCHMARK, telephone=True))
    for script, call in zip(clear, calls, strict=True):
        assert call.sample_rate == 8000
        assert len(call.waveform) == len(script.waveform) // 2
        assert (call.spans, call.text) == (script.spans, script.text)
    # Each stream has its own noise, the same each time.
    again = scripts(samples, 2, replace(BENCHMARK, telephone=True))
    np.testing.assert_array_equal(calls[1].waveform, again[1].waveform)
    assert not np.array_equal(calls[0].waveform[-4000:], calls[1].waveform[-4000:])


@pytest.mark.parametrize(("mode", "expected"), [("two_pass", True), ("streaming", False)])
def test_the_mode_of_the_streams_tells_whether_there_is_a_second_pass(mode, expected):
    assert replace(BENCHMARK, options={"mode": mode}).has_second_pass is expected


def test_the_language_of_the_streams_chooses_what_counts():
    said = [Utterance(Path("a.wav"), "今天", language="zh"), Utterance(Path("b.wav"), "明天")]
    asked = replace(BENCHMARK, options={"language": "zh"})
    assert scoring_of(said, asked) == Scoring("cer", "Chinese")
    assert scoring_of(said[1:], BENCHMARK) == Scoring("wer", "English")
    translated = replace(BENCHMARK, options={"language": "zh", "task": "translate"})
    assert scoring_of(said, translated) == Scoring("wer", "English")
    with pytest.raises(BenchError, match="those of the languages en, zh are compared"):
        scoring_of(said, BENCHMARK)


def test_characters_count_on_the_screen_where_they_count_in_the_text():
    characters = Scoring.of("auto", "zh")
    words = timed_words("今天好", (), 3.0, characters)
    script = Script(np.zeros(48_000, np.float32), 16_000, ((0.0, 3.0),), "今天好", (0,), words)
    outcome = StreamOutcome(replace(script, scoring=characters), chunk_s=[0.1], text="今天 坏")
    outcome.shown.append(Shown(1.5, (), "今天 坏", "", is_last=True))
    run = figures([outcome], 640, None)
    assert run.wer == run.screen_wer_1s == pytest.approx(1 / 3, abs=1e-6)


@pytest.mark.parametrize(("latency_s", "keeps_up"), [(0.1, True), (0.9, False)])
def test_a_server_keeps_up_while_chunks_are_answered_within_their_length(latency_s, keeps_up):
    script = Script(np.zeros(16_000, np.float32), 16_000, ((0.0, 1.0),), "a b")
    outcomes = [
        StreamOutcome(script, chunk_s=[latency_s] * 10, calls=30, text="a b") for _ in range(2)
    ]
    run = figures(
        outcomes, 640, {"speech": 0.1, "tritonserver": 0.15, "ctc_streaming_decoder": 0.75}
    )
    assert run.keeps_up is keeps_up
    assert (run.wer, run.chunks, run.calls_per_chunk) == (0, 20, 3.0)
    assert run.cpu_ms_per_chunk == 50.0
    assert run.cpu_ms_per_chunk_by_process["speech"] == 5.0
    assert run.orchestration_share == 0.25
    assert run.chunk_latency_ms.p99 == pytest.approx(1000 * latency_s)


def test_a_stream_that_broke_off_is_an_error_and_in_no_word_error_rate():
    script = Script(np.zeros(16_000, np.float32), 16_000, ((0.0, 1.0),), "a b")
    run = figures(
        [StreamOutcome(script, chunk_s=[0.1], text="a b"), StreamOutcome(script, error="gone")],
        640,
        None,
    )
    assert (run.errors, run.error_messages, run.wer) == (1, ["gone"], 0)
    assert run.keeps_up is False
    assert (run.cpu_ms_per_chunk, run.orchestration_share) == (None, None)


@pytest.mark.parametrize(("first", "limit"), [(8, 23), (8, 8), (16, 9), (4, 100), (3, 0)])
def test_the_largest_number_that_keeps_up_is_found(first, limit):
    def measured(streams):
        return replace(nothing, streams=streams, keeps_up=streams <= limit)

    nothing = figures([], 640, None)

    runs = [measured(first)]
    runs += largest(measured, runs)
    found = max((run.streams for run in runs if run.keeps_up), default=0)
    assert found <= limit <= found + max(1, found // 7 + 1)
    assert len(runs) < 12
