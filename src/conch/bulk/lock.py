"""One run at a time writes to an output: a lock that a dead run does not leave behind.

A local folder is locked by the kernel (flock), which gives the lock back when its holder dies. An
object store has no such lock. There the holder writes a number again and again, and who finds the
number at rest for STILL_S takes the lock over. No clock is compared with another one.
"""

import contextlib
import fcntl
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import IO, Any

from conch.bulk.output import LOCK, Output
from conch.bulk.places import told
from conch.wire.errors import BulkError

BEAT_S = 5.0
"""Seconds between two signs of life in an object store."""
STILL_S = 20.0
"""Seconds without one after which a run counts as dead."""


class Lock:
    """The right to write to an output, held inside a `with` block."""

    def __init__(self, output: Output, *, beat_s: float = BEAT_S, still_s: float = STILL_S) -> None:
        """Take nothing yet.

        Args:
            output: What to lock.
            beat_s: Seconds between two signs of life.
            still_s: Seconds without one after which another run's lock is taken over.
        """
        self._output, self._beat_s, self._still_s = output, beat_s, still_s
        self.run = secrets.token_hex(8)
        """Id of this run, which its workers look for before they write; see `require`."""
        self._file: IO[str] | None = None
        self._beats = 0
        self._done = threading.Event()
        self._beating = threading.Thread(target=self._beat, name="conch-bulk-lock", daemon=True)

    def __enter__(self) -> "Lock":
        if self._output.is_local:
            self._take_local()
        else:
            self._take_remote()
            self._beating.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._done.set()
        if self._file is not None:
            # The file stays: another run may wait with it open.
            self._file.truncate(0)
            self._file.close()
            return
        self._beating.join()
        if _holder(self._output).get("run") == self.run:
            self._output.remove(LOCK)

    def _take_local(self) -> None:
        path = self._output.local_path / LOCK
        with told(f"cannot lock {self._output.path(LOCK)}"), ExitStack() as opened:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            file = opened.enter_context(os.fdopen(descriptor, "r+", encoding="utf-8"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._taken(_holder(self._output)) from None
            file.truncate(0)
            file.write(self._content())
            file.flush()
            opened.pop_all()
        self._file = file

    def _take_remote(self) -> None:
        if not self._output.write_new(LOCK, self._content().encode()):
            holder = _holder(self._output)
            if holder and self._beats_on(holder):
                raise self._taken(holder)
            self._write()
        # Whoever took it at the same time has overwritten this by now.
        self._done.wait(min(1.0, self._beat_s))
        found = _holder(self._output)
        if found.get("run") != self.run:
            raise self._taken(found)

    def _beats_on(self, holder: Mapping[str, Any]) -> bool:
        """Return whether a holder gives a sign of life within STILL_S."""
        deadline = time.monotonic() + self._still_s
        while time.monotonic() < deadline:
            self._done.wait(self._beat_s / 2)
            if _holder(self._output) != holder:
                return True
        return False

    def _taken(self, holder: Mapping[str, Any]) -> BulkError:
        who = f"process {holder.get('pid', '?')} on {holder.get('host', '?')}"
        return BulkError(
            f"--out {self._output.address}: another bulk run writes there ({who}): wait for its "
            "end, or use another folder"
        )

    def _content(self) -> str:
        self._beats += 1
        fields = {"host": socket.gethostname(), "pid": os.getpid(), "beat": self._beats}
        return json.dumps({"run": self.run, **fields}) + "\n"

    def _write(self) -> None:
        self._output.write(LOCK, self._content().encode())

    def _beat(self) -> None:
        while not self._done.wait(self._beat_s):
            with contextlib.suppress(BulkError):  # the next beat may pass
                if _holder(self._output).get("run", self.run) != self.run:
                    return  # taken over, which `require` tells the workers
                self._write()


def require(output: Output, run: str) -> None:
    """Check that a run still holds the lock of an output.

    Raises:
        BulkError: it does not: its driver was taken for dead.
    """
    found = _holder(output).get("run")
    if found != run:
        raise BulkError(
            f"--out {output.address} is no longer locked by this run; it writes nothing more there"
        )


def _holder(output: Output) -> Mapping[str, Any]:
    """Return what the lock tells of its holder; empty if nobody holds it."""
    try:
        found = json.loads(output.read(LOCK) or b"{}")
    except FileNotFoundError:
        return {}
    except ValueError:  # a holder writes it at this moment
        return {}
    return found if isinstance(found, dict) else {}
