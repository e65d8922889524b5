"""`python -m lab` as a contributor runs it: the content of its reports."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench_runs import check_run
from conch_command import called

from lab.__main__ import main

pytestmark = pytest.mark.server

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "tests" / "data" / "manifest.tsv"


def lab(command: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "lab", command, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.nightly  # three processes, one after the other
def test_a_server_of_its_own_and_a_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faster_whisper")
    # Models that were fetched would be loaded too, and take memory.
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    file = tmp_path / "report.json"
    done = lab(
        "offline",
        *("--manifest", MANIFEST, "--limit", 3, "--warmup", 0, "--send", "file"),
        *("--option", "decoder=attention", "--baseline", "faster-whisper", "--json", file),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(file.read_text())
    check_run(report, utterances=3, decoder="attention")
    assert 100 < report["peak_memory_mb"] < 2800
    assert {"tritonserver", "speech", "attention_decoder"} <= set(report["memory_by_process_mb"])
    baseline = report["baselines"]["faster-whisper"]
    assert baseline["wer"] < 0.2
    assert baseline["audio_s"] == pytest.approx(report["audio_s"], rel=0.001)
    assert baseline["options"]["compute_type"] == "int8"
    versus = report["versus"]["faster-whisper"]
    assert versus["rtfx_ratio"] == pytest.approx(report["rtfx"] / baseline["rtfx"], rel=0.001)
    assert versus["wer_difference"] == pytest.approx(report["wer"] - baseline["wer"], abs=1e-6)


@pytest.mark.nightly
def test_joined_recordings_next_to_a_baseline(server: Any, tmp_path: Path) -> None:
    pytest.importorskip("faster_whisper")
    file = tmp_path / "report.json"
    done = lab(
        "offline",
        *("--manifest", MANIFEST, "--url", server.http_url, "--warmup", 1, "--join", 15),
        *("--pause", "0.5,1", "--between", "noise", "--telephone"),
        *("--baseline", "faster-whisper", "--json", file),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(file.read_text())
    baseline = report["baselines"]["faster-whisper"]
    assert len(report["recordings"]) == report["utterances"] > 1
    seconds = sum(recording["parts"][-1]["end_s"] for recording in report["recordings"])
    # All of what was joined, by both.
    for figures in (report, baseline):
        assert figures["audio_s"] == pytest.approx(seconds, rel=0.001)
        assert figures["reference_words"] > 80
        errors = sum(figures[name] for name in ("substitutions", "deletions", "insertions"))
        assert figures["wer"] == pytest.approx(errors / figures["reference_words"], abs=1e-6)
        assert 0 < figures["wer"] < 0.5
    assert report["errors"] == 0
    assert report["joining"]["pause_s"] == [0.5, 1]
    first, second = report["recordings"][0]["parts"][:2]
    assert 0.5 <= second["start_s"] - first["end_s"] <= 1
    assert "with noise, telephone calls (seed 1)" in done.stdout
    assert "| word errors |" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--join", "600"), 1, "less than half of one of 600 s"),
        (("--join", "0"), 2, "seconds from 1 to 36000; got '0'"),
        (("--pause", "1,2"), 2, "give --join too"),
        (("--join", "9", "--pause", "2,1"), 2, "the lower one first"),
        (("--join", "9", "--baseline", "sherpa-onnx-moonshine"), 1, "leave out --join"),
    ],
)
def test_what_cannot_be_joined_is_said(
    arguments: tuple[object, ...], status: int, message: str
) -> None:
    done = called("offline", "--manifest", MANIFEST, *arguments, main=main)
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
def test_small_chunks_with_a_second_pass(server: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    done = lab(
        "live",
        *("--manifest", MANIFEST, "--url", server.http_url, "--streams", 1, "--seconds", 2),
        *("--warmup", 0, "--chunk-ms", 200, "--option", "mode=two_pass"),
        *("--json", file),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(file.read_text())
    assert (report["chunk_ms"], report["errors"]) == (200, 0)
    assert report["chunks"] >= 10
    assert report["after_endpoint_ms"]["p50"] >= 0
    assert report["wer"] < 0.9
    assert report["screen_wer_2s"] < 1.2
    # The server told the times of the reference words.
    assert "no word times" not in done.stderr


@pytest.mark.nightly
def test_paths_side_by_side(server: Any, tmp_path: Path) -> None:
    file, picture = tmp_path / "report.json", tmp_path / "paths.png"
    done = lab(
        "paths",
        *("--manifest", MANIFEST, "--url", server.http_url, "--limit", 2, "--json", file),
        *("--path", "plain", "--path", "fused:decoder=ctc:lm_fusion=true", "--plot", picture),
    )
    assert done.returncode == 0, done.stderr
    plain, fused = json.loads(file.read_text())["paths"]
    assert (plain["name"], fused["name"]) == ("plain", "fused")
    assert {"moonshine_decoder"} <= set(plain["stages"])
    assert {"ctc_decoder"} <= set(fused["stages"])
    assert fused["options"]["lm_fusion"] is True
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "| fused |" in done.stdout


@pytest.mark.nightly
@pytest.mark.timeout(600)  # a server for each system
def test_conch_next_to_the_alternatives(tmp_path: Path) -> None:
    file, table = tmp_path / "report.json", tmp_path / "report.md"
    systems = ("conch", "in process", "blocking x2")
    done = lab(
        "orchestration",
        *("--manifest", MANIFEST, "--limit", 2, "--runs", 1, "--concurrency", 2, "--rate", 4),
        *("--instances", 2, "--json", file, "--markdown", table),
        *("--plot", tmp_path, *(part for name in systems for part in ("--only", name))),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(file.read_text())
    assert tuple(report["systems"]) == systems
    for name, system in report["systems"].items():
        assert [run["title"] for run in system["runs"]] == ["closed loop, 2", "paced, 4/s"]
        for run in system["runs"]:
            assert run["errors"] == 0, name
            # Triton counts a call after its answer: the last ones may be missing.
            assert run["calls_per_request"] == pytest.approx(3, abs=0.5), name
            assert run["wer"] == report["systems"]["conch"]["runs"][0]["wer"] < 0.2
            assert run["cpu_s_per_audio_s"]["total"] > 0
            assert run["stages"]["attention_decoder"]["compute_ms"] > 0
    assert "speech_blocking" in report["systems"]["blocking x2"]["memory_by_process_mb"]
    assert report["systems"]["conch"]["runs"][0]["orchestration_share"] < 0.5
    assert set(report["ratios"]) == {"conch / in process", "conch / blocking x2"}
    assert report["ratios"]["conch / blocking x2"]["orchestrator_memory"] > 0
    assert done.stdout == table.read_text()
    assert len(list(tmp_path.glob("*.png"))) == 3


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_growth_has_a_row_for_each_step(tmp_path: Path) -> None:
    file, table, picture = (tmp_path / f"growth.{kind}" for kind in ("json", "md", "png"))
    done = lab(
        "growth",
        *("--manifest", MANIFEST, "--lengths", "1,5", "--concurrency", "1,2", "--streams", 1),
        *("--seconds", 3, "--json", file, "--markdown", table, "--plot", picture),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(file.read_text())
    assert [row["length_s"] for row in report["lengths"]] == [1, 5]
    assert [row["concurrency"] for row in report["concurrency"]] == [1, 2]
    assert [row["streams"] for row in report["streams"]] == [1]
    for row in (*report["lengths"], *report["concurrency"], *report["streams"]):
        assert row["errors"] == 0
        cost = row["cpu_s_per_audio_s"]
        parts = sum(seconds for name, seconds in cost.items() if name != "total")
        assert 0 < cost["total"] == pytest.approx(parts, rel=0.01)
        assert 0 < row["orchestration_share"] < 1
        assert 0 < row["memory_by_process_mb"]["speech"] < row["peak_memory_mb"]
    for row in (*report["lengths"], *report["concurrency"]):
        assert {"vad", "moonshine_encoder", "moonshine_decoder"} <= set(row["cpu_s_per_audio_s"])
        assert row["audio_s"] >= 100
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert done.stdout == table.read_text()


def test_a_path_with_an_unknown_option_is_refused() -> None:
    done = called("paths", "--manifest", MANIFEST, "--path", "odd:decoder=ctc:beam=3", main=main)
    assert done.returncode == 2
    assert "unknown option 'beam'; did you mean 'beam_size'?" in done.stderr


@pytest.mark.nightly
def test_the_waits_of_a_crowd_and_beside_a_long_recording(server: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    sizes = ("--clients", 6, "--seconds", 2, "--short", 2, "--long", 30, "--times", 2)
    done = lab("fairness", *sizes, "--url", f"grpc://{server.grpc_url}", "--json", file)
    assert done.returncode == 0, done.stderr
    report = json.loads(file.read_text())
    crowd, during = report["crowd"], report["during"]
    assert (crowd["accepted"] + crowd["refused"], crowd["failed"], crowd["wrong"]) == (6, 0, 0)
    assert 0 < crowd["wait"]["p50"] <= crowd["wait"]["p95"] <= 1000 * crowd["wall_s"]
    assert during["alone"]["p50"] > 0
    assert during["sent_during"] <= 2
    assert "6 recordings at once, 12 s of audio" in done.stdout
