"""NVIDIA's perf_analyzer reads the files of `conch bench perf-analyzer-input` and measures."""

import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest

from conch.cli import main
from conch.launcher import TritonServer

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


def counted(server: TritonServer, metric: str) -> float:
    """Return the sum of a counter over its labels."""
    with urllib.request.urlopen(server.metrics_url, timeout=10) as answer:
        text = answer.read().decode()
    return sum(float(value) for value in re.findall(rf"^{metric}\{{.*\}} (\S+)$", text, re.M))


@pytest.mark.parametrize("send", ["waveform", "file"])
@pytest.mark.usefixtures("perf_analyzer")
def test_every_printed_command_measures(
    server: TritonServer, send: str, tmp_path: Path, capsys
) -> None:
    arguments = ["--out", str(tmp_path), "--url", f"grpc://{server.grpc_url}", "--streams", "2"]
    options = ["--option", "word_timestamps=true", "--stream-option", "mode=streaming"]
    manifest = str(DATA / "manifest.tsv")
    command = ["bench", "perf-analyzer-input", *arguments, *options, "--send", send]
    assert main([*command, "--limit", "3", manifest]) == 0
    commands = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    assert len(commands) == 4
    for line in commands:
        names = ("conch_requests_total", "conch_chunks_total", "conch_rejected_total")
        before = {name: counted(server, name) for name in names}
        done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=150)
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        sent = int(re.findall(r"--request-count (\d+)", line)[0])
        reported = re.search(r"Request count: (\d+)", said)
        assert reported is not None, said
        assert int(reported[1]) == sent, said
        is_live = "streams.json" in line
        grown = {name: counted(server, name) - before[name] for name in names}
        assert grown["conch_rejected_total"] == 0
        # perf_analyzer finishes the sequences that are open when it has counted enough.
        assert grown["conch_chunks_total" if is_live else "conch_requests_total"] >= sent
        assert is_live == ("Sequence count: " in said), said
