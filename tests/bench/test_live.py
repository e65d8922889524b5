"""Scripts and figures of live streams; tests with a server are in integration."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from live_answers import answer, spoken
from live_samples import sample

from conch.bench.figures import Latency, LiveRun, Script, StreamRecord, live_run
from conch.bench.header import header
from conch.bench.live import (
    LiveBenchmark,
    LiveReport,
    best_of,
    largest,
    markdown,
    scoring_of,
    scripts,
    warm_up,
)
from conch.bench.memory import Memory
from conch.scoring.error_rates import ENGLISH_WORDS, Scoring
from conch.scoring.manifest import ManifestEntry
from conch.wire.errors import BenchError
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis, Segment

BENCHMARK = LiveBenchmark(manifest=Path("none"), seconds=4.0, pause_s=0.5)


def record(text: str = "", error: str = "", chunk_s: list[float] | None = None) -> StreamRecord:
    """Return the record of a stream of a second that says "a b"."""
    script = Script(np.zeros(16_000, np.float32), 16_000, ((0.0, 1.0),), "a b")
    made = StreamRecord(script, has_second_pass=False)
    made.text, made.error, made.chunk_s = text, error, chunk_s or []
    return made


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

    async def all_streams(url, said, benchmark, record, label):
        sent.append([len(script.waveform) for script in said])

    monkeypatch.setattr("conch.bench.live.all_streams", all_streams)
    said = scripts([sample("one", 1.0), sample("two", 2.0)], 3, BENCHMARK)
    warm_up("none", said, replace(BENCHMARK, warmup_s=0.0))
    assert sent == []
    warm_up("none", said, replace(BENCHMARK, warmup_s=1.5))
    assert sent == [[24_000] * 3]


def test_a_stream_has_one_sample_rate():
    with pytest.raises(BenchError, match=r"found: \[8000, 16000\]"):
        scripts([sample("one", 1.0), sample("two", 1.0, 8000)], 1, BENCHMARK)


def test_partials_and_finals_are_seen_when_they_come():
    record = StreamRecord(
        Script(np.zeros(1, np.float32), 16_000, ((0.0, 2.0), (3.5, 5.0)), "a b"), True
    )
    first = Segment(0.0, 2.2, (Hypothesis("a", 0, 0),), index=0)
    record.see(answer(""), 0.7)
    record.see(answer("a", utterance=spoken("", "", "a")), 1.3)
    record.see(answer("a", first), 3.2)  # not final yet
    record.see(answer("a", Segment(0.0, 2.2, first.nbest, index=0, passes=2)), 3.8)
    record.see(answer("a b", utterance=spoken("", "", "b")), 4.6)
    assert record.first_partial_s == [1.3, pytest.approx(1.1)]
    assert record.final_s == [pytest.approx(1.8)]


def test_words_of_a_second_pass_are_not_the_first_text_of_the_next_utterance():
    record = StreamRecord(
        Script(np.zeros(1, np.float32), 16_000, ((0.0, 2.0), (3.5, 5.0)), "a b"), True
    )
    hypotheses = (Hypothesis("a more", 0, 0),)
    record.see(answer("a", utterance=spoken("", "", "a")), 1.3)
    record.see(answer("a", Segment(0.0, 2.2, (Hypothesis("a", 0, 0),), index=0)), 3.2)
    record.see(answer("a more", Segment(0.0, 2.2, hypotheses, index=0, passes=2)), 3.6)
    assert record.first_partial_s == [1.3]
    record.see(answer("a more b", utterance=spoken("", "", "b")), 4.6)
    assert record.first_partial_s == [1.3, pytest.approx(1.1)]


def test_an_utterance_that_was_never_open_has_its_first_text_at_its_end():
    record = StreamRecord(Script(np.zeros(1, np.float32), 16_000, ((0.5, 2.0),), "a"), False)
    record.see(answer("a", Segment(0.5, 2.2, (Hypothesis("a", 0, 0),), index=0)), 3.2)
    assert record.first_partial_s == [pytest.approx(2.7)]


@pytest.mark.parametrize(("mode", "expected"), [("two_pass", True), ("streaming", False)])
def test_the_mode_of_the_streams_decides_on_a_second_pass(mode, expected):
    assert replace(BENCHMARK, options={"mode": mode}).has_second_pass is expected


def test_the_language_of_the_streams_chooses_what_counts():
    said = [
        ManifestEntry(Path("a.wav"), "今天", language="zh"),
        ManifestEntry(Path("b.wav"), "明天"),
    ]
    asked = replace(BENCHMARK, options={"language": "zh"})
    assert scoring_of(said, asked) == Scoring("cer", "Chinese")
    assert scoring_of(said[1:], BENCHMARK) == Scoring("wer", "English")
    translated = replace(BENCHMARK, options={"language": "zh", "task": "translate"})
    assert scoring_of(said, translated) == Scoring("wer", "English")
    with pytest.raises(BenchError, match="those of the languages en, zh are compared"):
        scoring_of(said, BENCHMARK)


@pytest.mark.parametrize(("latency_s", "keeps_up"), [(0.1, True), (0.9, False)])
def test_a_server_keeps_up_while_chunks_are_answered_within_their_length(latency_s, keeps_up):
    records = [record(text="a b", chunk_s=[latency_s] * 10) for _ in range(2)]
    run = live_run(records, 640, ENGLISH_WORDS, used_cpu_s=1.0, peak=Memory(470.0))
    assert run.keeps_up is keeps_up
    assert (run.wer, run.chunks, run.audio_s) == (0, 20, 2)
    assert (run.cpu_ms_per_chunk, run.cpu_s_per_audio_s, run.peak_memory_mb) == (50, 0.5, 470)
    assert run.chunk_latency_ms.p99 == pytest.approx(1000 * latency_s)


def test_a_stream_that_broke_off_is_an_error_and_in_no_word_error_rate():
    run = live_run([record(text="a b", chunk_s=[0.1]), record(error="gone")], 640, ENGLISH_WORDS)
    assert (run.errors, run.error_messages, run.wer) == (1, ["gone"], 0)
    assert run.keeps_up is False
    assert (run.cpu_ms_per_chunk, run.cpu_s_per_audio_s, run.peak_memory_mb) == (None, None, None)


@pytest.mark.parametrize(("first", "limit"), [(8, 23), (8, 8), (16, 9), (4, 100), (3, 0)])
def test_the_largest_number_that_keeps_up_is_found(first, limit):
    def measured(streams):
        return replace(nothing, streams=streams, keeps_up=streams <= limit)

    nothing = live_run([], 640, ENGLISH_WORDS)

    runs = [measured(first)]
    runs += largest(measured, runs)
    most = max((run.streams for run in runs if run.keeps_up), default=0)
    assert most <= limit <= most + max(1, most // 7 + 1)
    assert len(runs) < 12


def test_the_best_run_is_the_largest_that_kept_up_or_the_first():
    runs = [
        replace(live_run([], 640, ENGLISH_WORDS), streams=streams, keeps_up=keeps_up)
        for streams, keeps_up in ((8, True), (16, True), (24, False))
    ]
    assert best_of(runs) is runs[1]
    assert best_of(runs[2:]) is runs[2]


def report(*runs: LiveRun, scoring: Scoring = ENGLISH_WORDS) -> str:
    result = LiveReport(
        header=header("live", LiveBenchmark(manifest=Path("none"))).with_triton("2.51.0"),
        options=RecognitionOptions(),
        scoring=scoring.title,
        best=runs[0],
        runs=runs,
    )
    return markdown(result)


def test_a_run_is_a_row() -> None:
    run = replace(
        live_run([], 640, ENGLISH_WORDS),
        streams=8,
        keeps_up=True,
        wer=0.1,
        chunk_latency_ms=Latency(p50=7.0, p90=20.0, p95=30.4, p99=63.0),
        first_partial_ms=Latency(p50=1123.0),
        final_ms=Latency(p50=1544.0),
        end_ms=Latency(p99=1041.0),
        cpu_ms_per_chunk=16.4,
        cpu_s_per_audio_s=0.0256,
        peak_memory_mb=1830.0,
    )
    row = "| 8 | yes | 7 | 20 | 30 | 63 | 1041 | 1123 | 1544 | 16.4 | 0.026 | 1830 | 10.00 |"
    assert row in report(run)
    behind = replace(live_run([], 640, ENGLISH_WORDS), streams=24, error_messages=["gone", "gone"])
    text = report(run, behind)
    assert "| 24 | no | - | - | - | - | - | - | - | - | - | - | - |" in text
    assert text.count("**gone**") == 1
    assert "chunks of 640 ms, paced in real time, 60.0 s a stream, pauses of 1.5 s; " in text


def test_the_table_names_the_error_rate_and_the_normaliser() -> None:
    run = live_run([], 640, ENGLISH_WORDS)
    assert "| WER % |" in report(run)
    result = report(run, scoring=Scoring.of("auto", "zh"))
    assert "| CER % |" in result
    assert "WER" not in result
    assert "Error rates: CER, Whisper's basic normaliser, in simplified characters." in result
