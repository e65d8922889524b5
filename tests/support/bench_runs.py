"""Checks of every run of `conch bench offline`, whatever the machine."""

from typing import Any

import pytest

PERCENTILES = ("p50", "p90", "p95", "p99", "max")


def check_run(
    run: dict[str, Any],
    *,
    utterances: int,
    load: str = "closed loop",
    decoder: str = "moonshine",
) -> None:
    assert run["errors"] == 0
    assert run["utterances"] == utterances
    assert run["load"] == load
    assert 0 <= run["wer"] < 0.2
    assert run["rtfx"] == pytest.approx(run["audio_s"] / run["wall_s"], rel=0.01)
    latencies = [run["latency_ms"][name] for name in PERCENTILES]
    assert latencies[0] > 0
    assert latencies == sorted(latencies)
    assert run["latency_ms"]["mean"] > 0
    assert {"vad", f"{decoder}_encoder", f"{decoder}_decoder", "total"} <= set(run["stages"])
    assert run["stages"]["vad"]["calls"] >= 1
