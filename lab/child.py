"""Run a baseline in a separate process, so that its memory, threads and CPU count apart.

Parent and child exchange JSON: one job on the child's standard input, then one message per
line on its standard output.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from conch.bench.memory import MemorySampler

GRACE_S = 10.0
"""Seconds for a stopped child to end its server and remove its folders."""


@contextmanager
def running(
    module: str, job: Mapping[str, Any]
) -> Iterator[tuple["subprocess.Popen[str]", Iterator[dict[str, Any]], MemorySampler]]:
    """Run `python -m module` on a job; yield the process, its messages and its memory.

    The messages end with the child. If the block ends first, the child is stopped, then killed.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Ctrl-C is for the parent, which then ends the child.
        start_new_session=True,
    )
    try:
        with MemorySampler(process.pid) as sampler:
            assert process.stdin is not None and process.stdout is not None
            # A child that dies at once shows by its missing answers.
            with suppress(BrokenPipeError), process.stdin as stdin:
                json.dump(job, stdin)
            yield process, map(json.loads, process.stdout), sampler
    except BaseException:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
        process.kill()
        raise
    finally:
        process.wait()
        if process.stdout:
            process.stdout.close()


def job() -> dict[str, Any]:
    """Return the job; called in the child."""
    asked: dict[str, Any] = json.load(sys.stdin)
    return asked


def say(**message: Any) -> None:
    """Send a message to the parent; called in the child."""
    print(json.dumps(message), flush=True)
