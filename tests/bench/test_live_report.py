"""The table of live streams."""

from dataclasses import replace
from pathlib import Path

from conch.bench.figures import Latency, LiveRun, live_run
from conch.bench.header import header
from conch.bench.live import LiveBenchmark, LiveReport, markdown
from conch.scoring.error_rates import ENGLISH_WORDS, Scoring
from conch.wire.options import RecognitionOptions


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
