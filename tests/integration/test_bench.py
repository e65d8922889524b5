"""`conch bench` as a user runs it: the content of its reports, not the machine's speed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from bench_runs import check_run
from conch_command import called

pytestmark = pytest.mark.server

MANIFEST = Path(__file__).parents[1] / "data" / "manifest.tsv"


def bench(*arguments: object, kind: str = "offline") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "conch.cli", "bench", kind, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.mark.nightly
def test_three_runs_on_a_running_server(server: Any, tmp_path: Path) -> None:
    file, table = tmp_path / "report.json", tmp_path / "report.md"
    done = bench(
        *("--manifest", MANIFEST, "--url", f"grpc://{server.grpc_url}", "--concurrency", "2,4"),
        *("--rate", "4"),
        *("--option", "rescore=true", "--option", "rescorer=ngram"),
        *("--option", "nbest=3", "--warmup", 1),
        *("--json", file, "--markdown", table),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(file.read_text())
    assert [run["concurrency"] for run in report["runs"]] == [2, 4, None]
    assert [run["rate"] for run in report["runs"]] == [None, None, 4]
    for run in report["runs"]:
        check_run(run, utterances=6, load="closed loop" if run["concurrency"] else "paced")
        assert "rescorer" in run["stages"]
    # The first run is at the top level as well.
    assert report["runs"][0].items() <= report.items()
    assert report["options"]["rescore"] is True
    assert report["options"]["nbest"] == 3
    assert report["options"]["beam_size"] == 10
    assert report["machine"]["cores"] >= 1
    assert report["versions"]["triton"].startswith("2.")
    assert report["command"].startswith("conch bench offline --manifest ")
    # The benchmark did not start this server, so it does not look at its processes.
    assert report["peak_memory_mb"] is None
    assert done.stdout == table.read_text()
    assert "| conch | closed loop, 4 |" in done.stdout


def test_one_refused_request_does_not_stop_the_others(
    server: Any, tmp_path: Path, speech_wav: Path
) -> None:
    loud = tmp_path / "loud.wav"
    soundfile.write(loud, np.full(16_000, 20.0, np.float32), 16_000, subtype="FLOAT")
    manifest = tmp_path / "manifest.tsv"
    manifest.write_text(f"path\ttext\nloud.wav\thello\n{speech_wav}\t\n")
    file = tmp_path / "report.json"
    done = called(
        "bench", "offline", "--manifest", manifest, "--url", server.http_url, "--json", file
    )
    assert done.returncode == 0, done.stderr
    assert f"{loud}: WAV reaches 20" in done.stderr
    report = json.loads(file.read_text())
    assert (report["utterances"], report["errors"]) == (2, 1)
    assert report["error_messages"][0]["path"] == str(loud)
    # The other one has no reference: its WER is unknown, not perfect.
    assert report["wer"] is None
    assert report["rtfx"] > 0


def test_every_request_refused_is_a_failure(server: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    done = called(
        *("bench", "offline", "--manifest", MANIFEST, "--url", server.http_url, "--limit", 2),
        *("--option", "deadline_ms=1", "--json", file),
    )
    assert done.returncode == 1
    report = json.loads(file.read_text())
    assert (report["errors"], report["rtfx"], report["wer"]) == (2, None, None)
    assert "deadline" in report["error_messages"][0]["message"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--manifest", "none.tsv"), 1, "manifest none.tsv cannot be read"),
        (("--manifest", MANIFEST, "--split", "none"), 1, "no utterance has split none"),
        (("--manifest", MANIFEST, "--option", "nbest=0"), 2, "'nbest' takes an integer"),
        (("--manifest", MANIFEST, "--concurrency", "0"), 2, "a whole number from 1"),
        (("--manifest", MANIFEST, "--rate", "0"), 2, "above 0 and up to 1000 requests a second"),
        (("--manifest", MANIFEST, "--url", "127.0.0.1:9"), 1, "cannot reach a server"),
        (("--manifest", MANIFEST, "--json", "none/x.json"), 2, "a folder that exists"),
    ],
)
def test_what_cannot_be_measured_is_said(
    arguments: tuple[object, ...], status: int, message: str
) -> None:
    done = called("bench", "offline", *arguments)
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
def test_live_streams_on_a_running_server(server: Any, tmp_path: Path) -> None:
    file, table = tmp_path / "report.json", tmp_path / "report.md"
    done = bench(
        *("--manifest", MANIFEST, "--url", server.http_url, "--streams", "1,2", "--seconds", 2),
        *("--warmup", 0, "--pause", 1, "--json", file, "--markdown", table),
        kind="live",
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(file.read_text())
    assert [run["streams"] for run in report["runs"]] == [1, 2]
    for run in report["runs"]:
        assert (run["load"], run["errors"]) == ("paced in real time", 0)
        assert run["audio_s"] >= 2 * run["streams"]
        assert run["chunks"] >= 4 * run["streams"]
        assert run["chunk_latency_ms"]["p50"] > 0
        assert 0 <= run["wer"] < 1
        assert 0 < run["final_ms"]["p50"] < 60_000
        # The benchmark did not start this server, so it does not look at its processes.
        assert run["cpu_ms_per_chunk"] is run["peak_memory_mb"] is None
    # The largest run that kept up is at the top level as well.
    assert any(run.items() <= report.items() for run in report["runs"])
    assert (report["benchmark"], report["chunk_ms"]) == ("live", 640)
    assert report["command"].startswith("conch bench live --manifest ")
    assert done.stdout == table.read_text()
