import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from conch.bench.memory import MemorySampler, cpu_by_process, cpu_since, process_tree, tree_memory

MIB = 1024 * 1024

# A child that holds memory and starts a child; each prints its id and waits for its end.
HOLD = "block = bytearray(b'x' * {size}); print(os.getpid(), flush=True); sys.stdin.read()"
PARENT = f"""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import os, sys; {HOLD.format(size=40 * MIB)}"])
{HOLD.format(size=60 * MIB)}
child.wait()
"""


@contextmanager
def family() -> Iterator[tuple[int, int]]:
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        # Unbuffered, the two would write into each other's lines.
        env={**os.environ, "PYTHONUNBUFFERED": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout
    try:
        ids = {int(process.stdout.readline()), int(process.stdout.readline())}
        (child,) = ids - {process.pid}
        yield process.pid, child
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def test_a_tree_is_its_root_and_all_descendants() -> None:
    with family() as (parent, child):
        assert process_tree(parent) == [parent, child]
        assert {parent, child} < set(process_tree(os.getpid()))


def test_memory_of_a_tree_adds_up() -> None:
    with family() as (parent, child):
        both = tree_memory([parent, child]).total_mb
        one = tree_memory([child]).total_mb
    # 60 and 40 MiB, and two interpreters.
    assert 100 * 1.048 < both < 160
    assert 40 * 1.048 < one < 80
    assert tree_memory([parent]).total_mb == 0  # it has ended


def test_shared_pages_count_once() -> None:
    # Forked, both processes map the same 100 MB; the sum of their resident sizes would be 200.
    block = np.ones(100 * 10**6, np.uint8)
    before = tree_memory([os.getpid()]).total_mb
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    try:
        together = tree_memory([os.getpid(), child]).total_mb
    finally:
        os.close(write_end)
        os.waitpid(child, 0)
        os.close(read_end)
    assert len(block) == 100 * 10**6
    assert together < before + 50


# The tests below do not sample their own process: memory of earlier tests comes and goes there.


def test_the_sampler_keeps_a_peak_that_is_over() -> None:
    with MemorySampler(os.getpid(), with_root=False) as sampler:
        before = sampler.peak().total_mb
        with family():
            during = sampler.peak().total_mb
        after = sampler.peak()
    assert during >= before + 90
    assert after.total_mb == during
    assert after.total_mb == pytest.approx(sum(after.by_process_mb.values()), abs=0.1)


def test_a_peak_before_a_new_beginning_is_forgotten() -> None:
    with MemorySampler(os.getpid(), with_root=False) as sampler:
        with family():
            during = sampler.peak().total_mb
        sampler.forget()
        assert sampler.peak().total_mb <= during - 90


def test_the_sampler_samples_by_itself() -> None:
    with MemorySampler(os.getpid(), with_root=False, interval_s=0.001) as sampler:
        before = sampler.peak().total_mb
        with family():
            deadline = time.monotonic() + 30
            while sampler._peak.total_mb < before + 90:
                assert time.monotonic() < deadline


def test_descendants_without_the_root() -> None:
    with family() as (parent, child):
        everything = MemorySampler(parent).peak().total_mb
        others = MemorySampler(parent, with_root=False).peak().total_mb
        assert others == pytest.approx(tree_memory([child]).total_mb, abs=5)
        assert everything - others == pytest.approx(tree_memory([parent]).total_mb, abs=5)


# A child that works until its end; it carries a model's name as Triton's stub does.
WORK = "import sys\nsys.stdout.write('x'); sys.stdout.flush()\nwhile True: sum(range(1000))"


def test_cpu_is_split_by_process() -> None:
    before = cpu_by_process(os.getpid())
    command = [sys.executable, "-c", WORK, "/models/busy/1/model.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.read(1)
            deadline = time.monotonic() + 30
            while cpu_since(os.getpid(), before).get("busy", 0.0) < 0.2:
                assert time.monotonic() < deadline
        finally:
            process.kill()
    assert "busy" not in cpu_since(os.getpid(), before)
