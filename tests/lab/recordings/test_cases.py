from pathlib import Path
from typing import Any

import pytest

from conch.bench.joined import BETWEEN
from conch.bench.recording_cases import (
    CASE_NAMES,
    CASES,
    RecordingsBenchmark,
    chosen_cases,
    markdown,
    run,
)
from conch.wire.errors import BenchError

RUN = {
    "path": "/recordings/recording-0003.flac",
    "start": 61.04,
    "end": 62.5,
    "words": "he was not there",
    "first_word": 120,
    "end_word": 124,
}


def figures(**others: Any) -> dict[str, Any]:
    return {
        "rtfx": 20.0,
        "wer": 0.05,
        "reference_words": 200,
        "substitutions": 6,
        "deletions": 3,
        "insertions": 1,
        "deleted_runs": [],
        "utterances": 4,
        "errors": 0,
        **others,
    }


def case(**others: Any) -> dict[str, Any]:
    return {
        "name": "5min",
        "title": "5 minutes",
        "minutes": 21.4,
        "conch": figures(deleted_runs=[RUN]),
        "baseline": None,
        "versus": None,
        "took_s": 90.0,
        **others,
    }


def compared(**others: Any) -> dict[str, Any]:
    versus = {"rtfx_ratio": 2.0, "wer_difference": -0.01, "deleted_runs_alone": [RUN]}
    baseline = figures(rtfx=10.0, wer=0.06, cached=0, insertions=3)
    return case(**{"baseline": baseline, "versus": versus, **others})


def lines(*cases: dict[str, Any], left_out: list[dict[str, str]] | None = None) -> list[str]:
    report = {
        "benchmark": "recordings",
        "command": "conch bench recordings --manifest m.tsv",
        "machine": {"cpu": "A CPU", "cores": 2, "memory_gb": 8.0},
        "versions": {"triton": "2.51.0", "python": "3.11.2"},
        "started_at": "2025-01-01T00:00:00+00:00",
        "cases": list(cases),
        "left_out": left_out or [],
    }
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
    known = compared()["versus"] | {"deleted_runs_alone": []}
    assert any(line.endswith("he was not there | yes |") for line in lines(compared(versus=known)))


def test_figures_of_the_cache_are_marked() -> None:
    assert not any("*" in line for line in lines(compared()))
    found = lines(compared(baseline=figures(rtfx=10.0, cached=4)))
    assert any("| 20.0 | 10.0* |" in line for line in found)
    assert any("*: of an earlier run of faster-whisper" in line for line in found)


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


def test_what_is_left_out_and_what_failed_is_told() -> None:
    failed = case(conch=figures(errors=2, wer=None, rtfx=None, reference_words=0))
    found = "\n".join(lines(failed, left_out=[{"name": "60min", "reason": "too little"}]))
    assert "**2 recordings were answered with an error and count nowhere.**" in found
    assert "60min is left out: too little." in found


def test_too_little_speech_for_any_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = Path(__file__).parents[1] / "data" / "manifest.tsv"
    with pytest.raises(BenchError, match=r"no case can be measured: .* less than half of one of"):
        run(RecordingsBenchmark(manifest=manifest, cases=("20min", "60min")))
    assert "20 minutes is left out: the chosen utterances make" in capsys.readouterr().err
