"""A run is stopped and goes on, or is done again with --overwrite."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from bulk_runs import BAD_FILES, FILES, finished, ids, shards
from waiting import wait_until

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not find_spec("ray"), reason="Ray is missing: make bulk-test has it"),
    pytest.mark.timeout(900),
    # Ray's own.
    pytest.mark.filterwarnings("ignore"),
]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_so_in_one_line_and_goes_on(
    bulk: Start, short_files: Path, plain_conch: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    arguments = (short_files, "--out", out, "--conch", plain_conch, "--files-per-shard", "5")
    process = bulk(*arguments, CONCH_PLAIN_SECONDS="0.25")

    def has_begun() -> bool:
        assert process.poll() is None, process.communicate()[0]
        return len(list(out.glob("part-*"))) >= 8

    wait_until(has_begun, timeout_s=300)
    os.kill(process.pid, number)
    said = finished(process, 130)
    there = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert 0 < len(there) < 60, "too late for this test"
    lines = [line for line in said.splitlines() if "cannot be decoded" not in line]
    assert len(lines) == 1, said
    assert lines[0].startswith("conch: stopped; run the same command again to continue")
    said = finished(bulk(*arguments), 1)
    assert "files were done before" in said
    assert f"{FILES} files in 60 shards, {BAD_FILES} failed" in said
    assert ids(shards(out)) == sorted(map(str, short_files.iterdir()))
    assert there.items() <= {p.name: p.stat().st_mtime_ns for p in out.glob("part-*")}.items()


def test_overwrite_does_all_again_and_leaves_what_is_not_its_own(
    bulk: Start, short_files: Path, plain_conch: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    files = sorted(short_files.iterdir())[:6]
    first = (*files, "--out", out, "--conch", plain_conch, "--files-per-shard", "2")
    finished(bulk(*first, "--format", "txt"), 0)
    (out / "mine.txt").write_text("kept")
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert len(before) == 3
    assert len(list(out.glob("_files/txt/**/*.txt"))) == 6
    other = (*files[:4], "--out", out, "--conch", plain_conch, "--nbest", "2")
    said = finished(bulk(*other), 1)
    assert "holds the results of a run with format" in said
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")} == before
    said = finished(bulk(*other, "--overwrite"), 0)
    assert "done before" not in said
    assert "conch: 4 files in 2 shards, 0 failed" in said
    result = shards(out)
    assert len(result) == 2
    assert ids(result) == [str(path) for path in files[:4]]
    assert json.loads((out / "_conch" / "run.json").read_text())["options"] == {"nbest": 2}
    assert not (out / "_files").exists()
    assert (out / "mine.txt").read_text() == "kept"
