"""Commands that start a server of their own, as a user starts them."""

import contextlib
import json
import os
import re
import signal
import subprocess
import uuid
from pathlib import Path

import numpy as np
import pytest
import soundfile
from bench_runs import check_run
from conch_command import CONCH, conch
from waiting import wait_until

pytestmark = pytest.mark.server

MANIFEST = Path(__file__).parents[1] / "data" / "manifest.tsv"


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Return a mark in the environment of every process that this test starts."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv("CONCH_TEST_MARK", mark)
    return mark.encode()


def marked(mark: bytes) -> dict[int, str]:
    """Return the command lines of the living processes with a mark, without this one."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        # What ends meanwhile is not alive.
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes():
                found[int(entry.name)] = (entry / "cmdline").read_text()
    return found


def test_without_url_transcribe_has_a_server_of_its_own_until_ctrl_c(
    speech_wav: Path, tmp_path: Path, mark: bytes
) -> None:
    samples, rate = soundfile.read(speech_wav, dtype="float32")
    long = tmp_path / "ten_minutes.wav"
    soundfile.write(long, np.tile(samples, 180), rate)
    command = [*CONCH, "transcribe", str(speech_wav), str(long), "--jobs", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        said = b""
        while b"server ready" not in said:
            line = process.stderr.readline()
            assert line, f"ended without a server: {said.decode()}"
            said += line
        assert b"starting a server" in said
        title, text = process.stdout.readline(), process.stdout.readline()
        assert speech_wav.name.encode() in title
        assert b"burning bright" in text
        assert any("/tritonserver" in command for command in marked(mark).values())
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 130
    assert marked(mark) == {}


@pytest.mark.nightly
def test_its_server_heals_and_no_file_is_lost(
    speech_wav: Path, tmp_path: Path, mark: bytes
) -> None:
    files = [tmp_path / f"{number:02d}.wav" for number in range(12)]
    for file in files:
        file.symlink_to(speech_wav)
    out = tmp_path / "out"
    command = [*CONCH, "transcribe", *map(str, files), "--output-dir", str(out), "--jobs", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: len(list(out.glob("*"))) >= 2, timeout_s=120)
        stubs = [pid for pid, command in marked(mark).items() if "/speech/1/model.py" in command]
        # As the stub itself crashes, rarely, beside other requests.
        os.kill(stubs[0], signal.SIGSEGV)
        _, errors = process.communicate(timeout=150)
    assert process.returncode == 0, errors
    (text,) = {path.read_text() for path in out.glob("*")}
    assert "burning bright" in text
    assert len(list(out.glob("*"))) == len(files)
    assert marked(mark) == {}


def test_demo(mark: bytes) -> None:
    done = conch("demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert marked(mark) == {}
    for part in ("accuracy=fast", "accuracy=best", "neural_rescorer", "total", "stopped"):
        assert part in done.stdout
    *_, page, curl = done.stdout.splitlines()
    (spoken,) = (line for line in done.stdout.splitlines() if line.startswith("spoken"))
    assert re.match(r"spoken  \d+\.\d s, the first audio after \d+ ms: /", spoken)
    file = Path(spoken.rpartition(": ")[2])
    assert soundfile.info(file).duration > 4
    file.unlink()
    assert "conch serve (make serve" in page and page.endswith(" http://127.0.0.1:9000")
    assert curl.endswith(" http://127.0.0.1:9000/v1/audio/transcriptions")


@pytest.mark.nightly
def test_bench_has_a_server_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    done = conch(
        *("bench", "offline", "--manifest", MANIFEST, "--limit", 3, "--warmup", 0),
        *("--send", "file", "--json", file),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(file.read_text())
    check_run(report, utterances=3)
    assert 100 < report["peak_memory_mb"] < 2800
    assert {"tritonserver", "speech", "moonshine_decoder"} <= set(report["memory_by_process_mb"])
