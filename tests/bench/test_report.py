from typing import Any

from conch.bench.report import markdown, number, percent, table

LATENCY = {"p50": 100.4, "p90": 200.0, "p95": 300.0, "p99": 400.0, "mean": 1.0, "max": 2.0}


ERRORS = {
    "reference_words": 200,
    "substitutions": 6,
    "deletions": 3,
    "insertions": 1,
    "deleted_runs": [],
}
RUN = {
    "path": "/recordings/recording-0001.flac",
    "start": 61.04,
    "end": 62.5,
    "words": "he was not there",
    "first_word": 120,
    "end_word": 124,
}


def run(concurrency: int, **others: Any) -> dict[str, Any]:
    return {
        "load": "closed loop",
        "concurrency": concurrency,
        "rate": None,
        "rtfx": 20.0 * concurrency,
        "wer": 0.0521,
        "wer_by_source": {"read": 0.04, "talk": 0.08},
        **ERRORS,
        "latency_ms": LATENCY,
        "audio_s": 60.0,
        "utterances": 10,
        "errors": 0,
        "stages": {"vad": {"calls": 1.0, "ms": 5.0}},
        "peak_memory_mb": 812.5,
        "versus": {
            "faster-whisper": {
                "rtfx_ratio": 0.9,
                "wer_difference": -0.0012,
                "deleted_runs_alone": others.get("deleted_runs", []),
            }
        },
        **others,
    }


def report(*runs: dict[str, Any], **others: Any) -> dict[str, Any]:
    baseline = {
        "rtfx": 22.2,
        "wer": 0.0533,
        "wer_by_source": {"read": 0.041, "talk": 0.081},
        **ERRORS,
        "latency_ms": LATENCY,
        "peak_memory_mb": 400.0,
    }
    return {
        "command": "conch bench offline --manifest m.tsv",
        "machine": {"cpu": "A CPU", "cores": 2, "memory_gb": 8.0},
        "versions": {"triton": "2.51.0", "python": "3.11.2"},
        "started_at": "2025-01-01T00:00:00+00:00",
        "runs": list(runs),
        "baselines": {"faster-whisper": baseline},
        **others,
    }


def test_runs_and_baselines_share_a_table() -> None:
    lines = markdown(report(run(1), run(8))).splitlines()
    assert (
        "| conch | closed loop, 1 | 20.0 | 5.21 | 100 | 200 | 300 | 400 | 812 | 0.90 | -0.12 |"
        in lines
    )
    assert any(line.startswith("| conch | closed loop, 8 | 160.0 |") for line in lines)
    assert any(
        line.startswith("| faster-whisper | closed loop, 1 | 22.2 | 5.33 |") for line in lines
    )
    assert "| talk | 8.00 | 8.10 |" in lines
    assert "| vad | 1.00 | 5.0 | 5.0 |" in lines


def test_a_paced_load_is_labelled_as_one() -> None:
    paced = {**run(1), "load": "paced", "concurrency": None, "rate": 2.5}
    lines = markdown(report(run(4), paced)).splitlines()
    assert any(line.startswith("| conch | paced, 2.5/s | 20.0 |") for line in lines)
    assert "| mean per request | calls | ms, closed loop, 4 | ms, paced, 2.5/s |" in lines


def test_every_table_is_rectangular() -> None:
    blocks = markdown(report(run(1, deleted_runs=[RUN]))).split("\n\n")
    tables = [block.splitlines() for block in blocks if block.startswith("|")]
    assert len(tables) == 5
    for lines in tables:
        assert len({line.count("|") for line in lines}) == 1


def test_word_errors_and_deleted_runs_have_tables() -> None:
    lines = markdown(report(run(1, deleted_runs=[RUN]))).splitlines()
    ours, theirs = (f"200 | 6 | 3 | 1 | {wer} | 3.00 | 1.50 | 0.50" for wer in ("5.21", "5.33"))
    assert f"| conch | closed loop, 1 | {ours} | 1 | 1 |" in lines
    assert f"| faster-whisper | closed loop, 1 | {theirs} | 0 | - |" in lines
    assert "| recording-0001.flac | conch | 61.0 | 62.5 | 4 | he was not there |" in lines


def test_deleted_runs_beyond_a_screenful_are_counted() -> None:
    lines = markdown(report(run(1, deleted_runs=[RUN] * 43))).splitlines()
    assert sum("he was not there" in line for line in lines) == 40
    assert "3 more of conch are in the JSON report." in lines


def test_joined_recordings_are_told_from_utterances() -> None:
    joining = {
        "seconds": 600.0,
        "pause_s": (0.2, 0.9),
        "between": "music",
        "is_telephone": False,
        "seed": 1,
    }
    assert "10 recordings joined to 600 s, pauses of 0.2 to 0.9 s with music (seed 1), 60 s" in (
        markdown(report(run(1), joining=joining))
    )


def test_what_is_unknown_is_a_dash_and_errors_are_told() -> None:
    alone = run(1, wer=None, wer_by_source={}, peak_memory_mb=None, versus={}, errors=2, stages={})
    text = markdown(report(alone, baselines={}))
    assert "| conch | closed loop, 1 | 20.0 | - | 100 | 200 | 300 | 400 | - |" in text
    assert "2 requests were answered with an error" in text


def test_numbers() -> None:
    assert (number(1.25, 1), number(None), percent(0.05), percent(0.001, sign=True)) == (
        "1.2",
        "-",
        "5.00",
        "+0.10",
    )


def test_table() -> None:
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"
