"""`python -m lab gateway` on a server and a gateway of its own."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from servers import processes_with
from subprocesses import output_of

pytestmark = [pytest.mark.server, pytest.mark.nightly]


def test_both_sides_are_measured_and_ended(tmp_path: Path) -> None:
    out = tmp_path / "gateway.json"
    command = (sys.executable, "-m", "lab", "gateway", "--requests", "2")
    sizes = ("--streams", "1", "--seconds", "4", "--json", out)
    own = {**os.environ, "TMPDIR": str(tmp_path)}
    said = output_of(*command, *sizes, timeout_s=150, env=own)
    report = json.loads(out.read_text())
    assert report["benchmark"] == "gateway"
    assert report["files"]["gateway_ms"]["p50"] > 1
    assert report["files"]["gateway_cpu_ms"] > 0
    (live,) = report["live"]
    assert live["streams"] == 1
    assert live["direct_cpu"] > 0
    assert live["gateway_cpu"] > 0
    assert "| added ms, median of pairs |" in said
    for process in processes_with("lab.gateway_process"):
        with suppress(psutil.Error):  # it has ended by now, or is somebody else's
            assert psutil.Process(process).environ().get("TMPDIR") != str(tmp_path)
