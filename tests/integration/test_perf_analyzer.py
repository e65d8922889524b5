"""NVIDIA's perf_analyzer reads the files of `python -m lab perf-analyzer-input` and measures."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from metrics import metrics_of
from waiting import wait_until

from conch.launcher import TritonServer
from lab.__main__ import main

pytestmark = [pytest.mark.server, pytest.mark.nightly]

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def perf_analyzer() -> None:
    """Skip the test where perf_analyzer is missing or does not run."""
    program = shutil.which("perf_analyzer")
    if program is None:
        pytest.skip("perf_analyzer is missing: pip install perf-analyzer")
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"perf_analyzer does not run here, it needs glibc 2.38: {done.stderr.strip()}")


@pytest.mark.parametrize("send", ["waveform", "file"])
@pytest.mark.usefixtures("perf_analyzer")
def test_every_printed_command_measures(
    server: TritonServer, send: str, tmp_path: Path, capsys
) -> None:
    arguments = ["--out", str(tmp_path), "--url", f"grpc://{server.grpc_url}", "--streams", "2"]
    options = ["--option", "word_timestamps=true", "--stream-option", "mode=streaming"]
    manifest = str(DATA / "manifest.tsv")
    command = ["perf-analyzer-input", *arguments, *options, "--send", send]
    assert main([*command, "--limit", "3", manifest]) == 0
    commands = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    assert len(commands) == 4
    for line in commands:
        before = metrics_of(server.metrics_url)
        done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=150)
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        sent = int(re.findall(r"--request-count (\d+)", line)[0])
        is_live = "streams.json" in line
        assert is_live == ("Sequence count: " in said), said
        of = "chunks_total{mode=streaming" if is_live else "requests_total{mode=offline"
        # perf_analyzer finishes the sequences that are open when it has counted enough.
        wait_until(partial(is_grown, server, before, f"conch_{of},outcome=ok}}", sent))
        wait_until(lambda: metrics_of(server.metrics_url)["conch_open_streams"] == 0)
        assert grown(server, before, "conch_rejected_total") == 0, said
        assert grown(server, before, "conch_refused_total") == 0, said


def grown(server: TritonServer, before: Mapping[str, float], metric: str) -> float:
    return metrics_of(server.metrics_url)[metric] - before.get(metric, 0)


def is_grown(server: TritonServer, before: Mapping[str, float], metric: str, least: int) -> bool:
    return grown(server, before, metric) >= least
