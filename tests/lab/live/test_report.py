"""The tables of what viewers of live streams see."""

from dataclasses import replace
from pathlib import Path

from conch.bench.figures import Latency, live_run
from conch.bench.live import LiveBenchmark
from conch.scoring.error_rates import ENGLISH_WORDS, Scoring
from conch.wire.options import RecognitionOptions
from lab.command import lab_header
from lab.live.benchmark import ViewerReport
from lab.live.figures import RollingFigures, ViewedRun, viewed
from lab.live.report import markdown


def run(streams: int, keeps_up: bool = True, wer: float | None = 0.1) -> ViewedRun:
    counted = replace(live_run([], 640, ENGLISH_WORDS), streams=streams, keeps_up=keeps_up, wer=wer)
    return viewed(counted, [], [], ENGLISH_WORDS, None)


def report(*runs: ViewedRun, scoring: Scoring = ENGLISH_WORDS) -> str:
    found = ViewerReport(
        header=lab_header("live", LiveBenchmark(manifest=Path("none"))).with_triton("2.51.0"),
        options=RecognitionOptions(),
        scoring=scoring.title,
        best=runs[0],
        runs=runs,
    )
    return markdown(found)


def test_what_a_viewer_sees_has_a_table_of_its_own() -> None:
    seen = replace(
        run(8),
        screen_wer_1s=0.25,
        screen_wer_2s=0.125,
        firm_lag_ms=Latency(mean=900.4, p50=800.0, p95=1500.0),
        revised_share=0.5,
        firm_revised_share=0.02,
        after_endpoint_ms=Latency(p50=300.0, p95=400.0),
    )
    row = "| 8 | 25.00 | 12.50 | 900 | 800 | 1500 | 50.00 | 2.00 | 300 | 400 |"
    assert row in report(seen)
    assert "rolling passes" not in report(seen)


def test_the_tables_name_the_error_rate_and_the_normaliser() -> None:
    assert "| WER % | offline WER % |" in report(run(8))
    found = report(run(8), scoring=Scoring.of("auto", "zh"))
    assert "| CER % | offline CER % |" in found
    assert "CER % after 1 s" in found
    assert "WER" not in found
    assert "Error rates: CER, Whisper's basic normaliser, in simplified characters." in found


def test_rolling_passes_have_a_table_of_the_runs_that_tell_them() -> None:
    rolling = RollingFigures(
        made=40, skipped=3, refused=1, interval_ms=1280.5, late_ms=Latency(mean=210.0, p95=390.0)
    )
    table = report(run(4), replace(run(8), rolling=rolling)).partition("rolling passes")[2]
    assert "| 8 | 40 | 3 | 1 | 1280 | 210 | 390 |" in table
    assert "| 4 |" not in table
