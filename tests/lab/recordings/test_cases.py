from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from reports import DELETED, LATENCY, accuracy, header, offline_run, run_figures

from conch.bench.figures import RunFigures
from conch.wire.errors import BenchError
from conch.wire.options import RecognitionOptions
from lab.baselines.faster_whisper import Options
from lab.figures import BaselineFigures, DeletedWords, Judged, JudgedRun, Scored, Versus
from lab.recordings.cases import (
    CASE_NAMES,
    CASES,
    CaseFigures,
    LeftOut,
    RecordingsBenchmark,
    RecordingsReport,
    chosen_cases,
    run,
)
from lab.recordings.joined import BETWEEN, Joining
from lab.recordings.report import markdown

VERSUS = Versus(rtfx_ratio=2.0, wer_difference=-0.01, deleted_runs_alone=[DELETED])


def conch(
    figures: RunFigures | None = None, deleted: Sequence[DeletedWords] = (DELETED,)
) -> JudgedRun:
    figures = figures or run_figures(20.0, accuracy(0.05), utterances=4)
    return JudgedRun(run=offline_run(figures=figures), deleted_runs=deleted)


def case(judged: JudgedRun | None = None) -> CaseFigures:
    return CaseFigures(
        name="5min",
        title="5 minutes",
        joining=Joining(seconds=300),
        source=None,
        minutes=21.4,
        conch=judged or conch(),
        took_s=90.0,
    )


def compared(versus: Versus = VERSUS) -> CaseFigures:
    judged = Judged(accuracy=accuracy(0.06, insertions=3), deleted_runs=[])
    baseline = BaselineFigures(
        scored=Scored(rtfx=10.0, judged=judged),
        wall_s=1.0,
        utterances=4,
        latency_ms=LATENCY,
        audio_s=1284.0,
        cpu_s_per_audio_s=0.1,
        peak_memory_mb=400.0,
        options=Options(model="", compute_type="int8", cpu_threads=2),
    )
    return replace(case(), baseline=baseline, versus=versus)


def lines(*cases: CaseFigures, left_out: Sequence[LeftOut] = ()) -> list[str]:
    report = RecordingsReport(
        header=header("python -m lab recordings --manifest m.tsv"),
        options=RecognitionOptions(),
        cases=cases,
        left_out=left_out,
    )
    return markdown(report).splitlines()


def test_every_kind_of_recording_is_a_case() -> None:
    assert len(set(CASE_NAMES)) == len(CASES) + 1
    assert {case.joining.between for case in CASES} == set(BETWEEN)
    assert {60, 300, 1200, 3600} == {case.joining.seconds for case in CASES}
    assert {(0.1, 0.4), (0.2, 0.9), (1, 3)} == {case.joining.pause_s for case in CASES}
    assert any(case.joining.is_telephone for case in CASES)


def test_cases_keep_their_order_and_sources_come_last() -> None:
    names = [case.name for case in chosen_cases(["sources", "music", "1min"], ["read", "talk"])]
    assert names == ["1min", "music", "source:read", "source:talk"]
    assert [case.source for case in chosen_cases(["sources"], ["read"])] == ["read"]
    assert chosen_cases(["1min"], ["read"])[0].source is None


def test_conch_alone() -> None:
    found = lines(case())
    assert "| 5 minutes | 4 | 21 | 5.00 | 1.50 | 1 | 20.0 | 1.5 |" in found
    assert "| 5 minutes | 200 | 6 | 3 | 1 |" in found
    assert "| 5 minutes | recording-0003 | 61.0 | 62.5 | he was not there |" in found
    assert not any("fw" in line for line in found)
    assert any(line.startswith("4 recordings, 1284 s of audio; A CPU") for line in found)


def test_conch_beside_the_baseline() -> None:
    found = lines(compared())
    cells = "5.00 | 6.00 | 1.50 | 1.50 | 1 | 0 | 20.0 | 10.0 | 2.00 | 1 | 1.5"
    assert f"| 5 minutes | 4 | 21 | {cells} |" in found
    assert "| 5 minutes | 200 | 200 | 6 | 6 | 3 | 3 | 1 | 3 |" in found
    assert "| 5 minutes | recording-0003 | 61.0 | 62.5 | he was not there | no |" in found
    known = replace(VERSUS, deleted_runs_alone=[])
    assert any(line.endswith("he was not there | yes |") for line in lines(compared(known)))


def test_every_table_is_rectangular() -> None:
    tables = [
        block.splitlines()
        for cases in ([case(), case()], [compared(), compared()])
        for block in "\n".join(lines(*cases)).split("\n\n")
        if block.startswith("|")
    ]
    assert len(tables) == 6
    for rows in tables:
        assert len({row.count("|") for row in rows}) == 1


def test_what_is_left_out_and_what_failed_is_reported() -> None:
    failed = run_figures(None, accuracy(None, words=0), errors=["no", "no"])
    left_out = [LeftOut("60min", "too little")]
    found = "\n".join(lines(case(conch(failed)), left_out=left_out))
    assert "**2 recordings failed and do not count.**" in found
    assert "60min is left out: too little." in found


def test_too_little_speech_for_any_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = Path(__file__).parents[2] / "data" / "manifest.tsv"
    with pytest.raises(BenchError, match=r"no case can be measured: .* less than half of one of"):
        run(RecordingsBenchmark(manifest=manifest, cases=("20min", "60min")))
    assert "20 minutes is left out: the chosen utterances make" in capsys.readouterr().err
