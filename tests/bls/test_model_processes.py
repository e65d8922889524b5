"""Real processes in /proc: when they began, how long they wait for a core, and their end."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from waiting import wait_until

from conch.bls.hangs import ModelProcesses, ThreadTimes, boot_time_s, starved_s
from conch.processes import STUB

SLEEP = "import time; time.sleep(600)"
BURN = "while True: pass"


@pytest.fixture
def start(tmp_path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start programs under the name of Triton's stub, and end them."""
    # A link would keep the interpreter's own name in /proc, but not in the command line.
    stub = tmp_path / STUB
    os.symlink(shutil.which(sys.executable) or sys.executable, stub)
    started = []

    def start(model: str, code: str) -> subprocess.Popen[bytes]:
        path = tmp_path / model / "1" / "model.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
        process = subprocess.Popen([str(stub), str(path)])
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_only_older_processes_of_the_model_are_ended(start):
    vad, other = start("vad", SLEEP), start("encoder", SLEEP)
    processes = ModelProcesses(os.getpid())
    before = boot_time_s() - 3600
    assert processes.kill("vad", before) == 0
    (began,) = processes.started("vad")
    assert 0 <= boot_time_s() - began < 60
    assert processes.kill("vad", began + 1) == 1
    assert vad.wait(10) < 0
    assert other.poll() is None
    assert processes.kill("vad", began + 1) == 0


def test_nothing_is_ended_that_is_no_child_of_the_server(start):
    start("vad", SLEEP)
    processes = ModelProcesses(os.getppid())
    assert processes.started("vad") == []
    assert processes.kill("vad", boot_time_s() + 1) == 0


def test_a_process_that_sleeps_waits_for_no_core(start):
    start("vad", SLEEP)
    processes = ModelProcesses(os.getpid())
    processes.started("vad")
    processes.starved_s("vad")

    def starved_s() -> float:
        before = boot_time_s()
        wait_until(lambda: boot_time_s() - before > 0.5)
        return processes.starved_s("vad")

    wait_until(lambda: starved_s() < 0.1)  # its start is over


def test_a_process_that_shares_a_core_with_others_waits_for_it(start):
    shared = min(os.sched_getaffinity(0))
    burning = [start(name, BURN) for name in ("vad", "a", "b", "c", "d")]
    for process in burning:
        os.sched_setaffinity(process.pid, {shared})
    os.setpriority(os.PRIO_PROCESS, burning[0].pid, min(19, os.nice(0) + 10))
    processes = ModelProcesses(os.getpid())
    waited = before = passed = 0.0

    def has_waited() -> bool:
        nonlocal waited, before, passed
        waited += processes.starved_s("vad")
        now = boot_time_s()
        before = before or now
        passed = now - before
        return passed > 2

    wait_until(has_waited)
    assert waited > 0.5 * passed


@pytest.mark.parametrize(
    ("after", "expected_s"),
    [
        (ThreadTimes(False, 1.0, 5.0), 0.0),
        (ThreadTimes(False, 1.0, 5.4), 0.4),
        (ThreadTimes(True, 1.9, 5.0), 0.1),
        (ThreadTimes(True, 2.0, 5.0), 0.0),
        (ThreadTimes(True, 1.0, 9.0), 1.0),
    ],
)
def test_the_longest_wait_counts_also_while_it_lasts(after, expected_s):
    before = {7: ThreadTimes(True, 1.0, 5.0), 8: ThreadTimes(False, 3.0, 0.0)}
    others = {8: ThreadTimes(False, 3.0, 0.0), 9: ThreadTimes(True, 0.0, 50.0)}
    assert starved_s(before, {7: after, **others}, 1.0) == pytest.approx(expected_s)
