from typing import Any

from conch.bench.report import markdown, number, percent, table

LATENCY = {"p50": 100.4, "p90": 200.0, "p95": 300.0, "p99": 400.0, "mean": 1.0, "max": 2.0}


def run(concurrency: int, **others: Any) -> dict[str, Any]:
    return {
        "load": "closed loop",
        "concurrency": concurrency,
        "rate": None,
        "rtfx": 20.0 * concurrency,
        "wer": 0.0521,
        "wer_by_source": {"read": 0.04, "talk": 0.08},
        "latency_ms": LATENCY,
        "audio_s": 60.0,
        "utterances": 10,
        "errors": 0,
        "stages": {"vad": {"calls": 1.0, "ms": 5.0}},
        "peak_memory_mb": 812.5,
        "versus": {"faster-whisper": {"rtfx_ratio": 0.9, "wer_difference": -0.0012}},
        **others,
    }


def report(*runs: dict[str, Any], **others: Any) -> dict[str, Any]:
    baseline = {
        "rtfx": 22.2,
        "wer": 0.0533,
        "wer_by_source": {"read": 0.041, "talk": 0.081},
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
    rows = [line for line in markdown(report(run(1))).splitlines() if line.startswith("|")]
    widths = {line.split("|")[1].strip(): line.count("|") for line in rows}
    assert widths["system"] == widths["conch"] == widths["faster-whisper"]


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
