"""Records as JSON."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from reports import header, offline_run

from conch.bench.header import Flat, to_json
from conch.bench.offline import OfflineReport
from conch.wire.options import RecognitionOptions


@dataclass(frozen=True)
class Inner:
    figure: float | None
    path: Path


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Flat[Inner]
    others: tuple[Inner, ...]
    by_name: Flat[dict[str, int]]


def test_what_is_flat_stands_in_its_place_and_the_rest_is_nested() -> None:
    inner = Inner(None, Path("a/b"))
    assert to_json(Outer("x", inner, (inner,), {"one": 1})) == {
        "name": "x",
        "figure": None,
        "path": "a/b",
        "others": [{"figure": None, "path": "a/b"}],
        "one": 1,
    }


def test_what_has_no_json_is_refused() -> None:
    with pytest.raises(TypeError, match="a report holds set, which has no JSON"):
        to_json({"found": {1, 2}})


def test_the_keys_of_an_offline_report_are_those_that_scripts_read() -> None:
    run = offline_run()
    report = OfflineReport(
        header=header(split="dev", warmup=8), options=RecognitionOptions(), first=run, runs=[run]
    )
    result = json.loads(json.dumps(to_json(report)))
    assert set(result["runs"][0]) == {
        *(
            "load",
            "concurrency",
            "rate",
            "accuracy",
            "rtfx",
            "wer",
            "wer_by_source",
            "reference_words",
            *("cer", "cer_by_source", "character_errors", "scoring"),
        ),
        *("substitutions", "deletions", "insertions", "latency_ms", "audio_s", "wall_s"),
        *("utterances", "errors", "error_messages", "stages", "peak_memory_mb"),
        "memory_by_process_mb",
    }
    # The first run and the settings of the benchmark are at the top level as well.
    assert result["runs"][0].items() <= result.items()
    assert (result["split"], result["warmup"], result["machine"]["cores"]) == ("dev", 8, 2)
    assert result["options"]["beam_size"] == RecognitionOptions().beam_size
    assert set(result["latency_ms"]) == {"p50", "p90", "p95", "p99", "mean", "max"}
