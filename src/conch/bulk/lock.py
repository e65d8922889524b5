"""One run at a time writes to an output: a lock that a dead run does not leave behind.

The kernel locks a local file (flock), and releases it when its holder dies. An object store has no
such lock. There the holder counts up in a file, and a run that sees the count stand still for
STILL_S takes the lock over. Clocks of two machines are never compared.
"""

import contextlib
import fcntl
import itertools
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from conch.bulk.storage import LOCK, Output, storage_errors
from conch.wire.errors import BulkError

BEAT_S = 5.0
"""Seconds between two heartbeats in an object store."""
STILL_S = 20.0
"""Seconds without a heartbeat after which a run counts as dead."""


def flocked(path: Path) -> IO[bytes]:
    """Open a local file, unbuffered, to read it from its start and to append; and lock it.

    Raise a BlockingIOError if another process holds the lock, an OSError if it cannot be written.
    """
    file = path.open("a+b", buffering=0)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


@contextmanager
def locked(output: Output, *, beat_s: float = BEAT_S, still_s: float = STILL_S) -> Iterator[str]:
    """Hold the right to write to an output inside the block; yield the id of this run.

    It beats every `beat_s` seconds. Another run's lock is taken over when that has been still for
    `still_s`. Raise a BulkError if another run holds the lock, or the output cannot be written.
    """
    run = secrets.token_hex(8)
    with _local(output, run) if output.is_local else _remote(output, run, beat_s, still_s):
        yield run


def require(output: Output, run: str) -> None:
    """Raise a BulkError if a run has lost the lock to another; workers check before they write."""
    if _holder(output).get("run") != run:
        raise BulkError(
            f"--out {output.address} is no longer locked by this run; it writes nothing more there"
        )


@contextmanager
def _local(output: Output, run: str) -> Iterator[None]:
    path = output.local_path / LOCK
    with storage_errors(f"cannot lock {output.path(LOCK)}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = flocked(path)
        except BlockingIOError:
            raise _taken(output) from None
        file.truncate(0)
        file.write(_content(run, 1))
    with file:
        try:
            yield
        finally:
            # The file stays: another run may have it open.
            file.truncate(0)


@contextmanager
def _remote(output: Output, run: str, beat_s: float, still_s: float) -> Iterator[None]:
    beats = itertools.count(1)
    done = threading.Event()

    def beat() -> None:
        while not done.wait(beat_s):
            with contextlib.suppress(BulkError):  # the next beat may pass
                if _holder(output).get("run", run) != run:
                    return  # taken over; `require` stops the workers
                output.write(LOCK, _content(run, next(beats)))

    if not output.write_new(LOCK, _content(run, next(beats))):
        holder = _holder(output)
        deadline = time.monotonic() + still_s
        while holder and time.monotonic() < deadline:
            done.wait(beat_s / 2)
            if _holder(output) != holder:
                raise _taken(output)
        output.write(LOCK, _content(run, next(beats)))
    # A run that took it at the same time has overwritten this by now.
    done.wait(min(1.0, beat_s))
    if _holder(output).get("run") != run:
        raise _taken(output)
    thread = threading.Thread(target=beat, name="conch-bulk-lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if _holder(output).get("run") == run:
            output.remove(LOCK)


def _taken(output: Output) -> BulkError:
    holder = _holder(output)
    who = f"process {holder.get('pid', '?')} on {holder.get('host', '?')}"
    return BulkError(
        f"--out {output.address}: another bulk run writes there ({who}): wait for its end, or use "
        "another folder"
    )


def _content(run: str, beat: int) -> bytes:
    fields = {"run": run, "host": socket.gethostname(), "pid": os.getpid(), "beat": beat}
    return json.dumps(fields).encode() + b"\n"


def _holder(output: Output) -> Mapping[str, Any]:
    """Return the content of the lock; empty if no run holds it, or its holder is writing it."""
    try:
        found = json.loads(output.read(LOCK) or b"{}")
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
