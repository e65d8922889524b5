"""Run a baseline in a process of its own, so that its memory, threads and CPU count apart."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeAlias, TypeVar

from conch.bench.memory import MemorySampler

GRACE_S = 10.0
"""Seconds for a stopped child to end its server and remove its folders."""

Job = TypeVar("Job")
Say: TypeAlias = Callable[[Any], None]
"""Sends a message to the parent."""


@contextmanager
def running(
    work: Callable[[Job, Say], None], job: Job
) -> Iterator[tuple[BaseProcess, Iterator[Any], MemorySampler]]:
    """Let a new process work on a job; yield the process, its messages and its memory.

    The messages end with the child. If the block ends first, the child is stopped, then killed.
    """
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_begin, args=(work, job, sending))
    process.start()
    sending.close()
    assert process.pid is not None
    try:
        with MemorySampler(process.pid) as sampler:
            yield process, _received(receiving), sampler
    except BaseException:
        process.terminate()
        process.join(GRACE_S)
        process.kill()
        raise
    finally:
        process.join()
        receiving.close()


def _begin(work: Callable[[Job, Say], None], job: Job, sending: "Connection[Any, Any]") -> None:
    os.setsid()  # Ctrl-C is for the parent, which then ends the child.
    work(job, sending.send)


def _received(receiving: "Connection[Any, Any]") -> Iterator[Any]:
    with suppress(EOFError):
        while True:
            yield receiving.recv()
