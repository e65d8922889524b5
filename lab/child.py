"""A baseline in a process of its own, so that its memory, its threads and its CPU are its own.

Parent and child speak JSON: one job on the child's standard input, then a message a line on its
standard output.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from conch.bench.memory import MemorySampler

GRACE_S = 10.0
"""For a child that is told to stop, to stop a server of its own and remove its folders."""


@contextmanager
def running(
    module: str, job: Mapping[str, Any]
) -> Iterator[tuple["subprocess.Popen[str]", Iterator[dict[str, Any]], MemorySampler]]:
    """Run `python -m module` on a job; yield the process, its messages and its memory.

    The messages end when the child does. Left early, the child is told to stop, then killed.
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
            # A child that dies at once is told by its missing answers.
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
    """Return, in the child, what it is asked to do."""
    asked: dict[str, Any] = json.load(sys.stdin)
    return asked


def say(**message: Any) -> None:
    """Send, in the child, a message."""
    print(json.dumps(message), flush=True)
