"""One `tritonserver` process: started under its guard, ended with nothing left."""

import contextlib
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from conch.launcher import guard
from conch.launcher.logs import LOGGER, LogLine, LogReader
from conch.wire.errors import ServerError

OUTPUT_TIMEOUT_S = 5.0
GUARD_TIMEOUT_S = 5.0


class Workspace:
    """What belongs to one server on this machine and must be gone after it."""

    def __init__(self) -> None:
        self.name = f"conch-{secrets.token_hex(6)}"
        self.directory = Path(tempfile.mkdtemp(prefix=f"{self.name}-"))

    @property
    def segment_prefix(self) -> str:
        """How the names of its shared-memory segments begin."""
        return f"{self.name}-"

    def remove(self) -> None:
        """Removes the directory and any segment left; harmless when there is none."""
        names = guard.remove_leftovers(self.segment_prefix, self.directory)
        if names:
            LOGGER.debug("removed shared memory left by the server: %s", ", ".join(names))


class ServerProcess:
    """Runs `command` in a session and process group of its own, watched by a guard.

    A session of its own keeps a terminal's Ctrl-C from reaching Triton before this program,
    which stops it in order.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        workspace: Workspace,
        *,
        grace_s: float,
        least_level: int,
        on_log: Callable[[LogLine], None] | None,
    ) -> None:
        self._lifeline, theirs = socket.socketpair()
        try:
            with theirs:
                self.popen = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", guard.__file__),
                        *(str(theirs.fileno()), workspace.segment_prefix),
                        *(str(workspace.directory), str(grace_s)),
                        *command,
                    ],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except BaseException:
            # The guard, if it came so far, takes this for the end of the parent.
            self._lifeline.close()
            raise
        assert self.popen.stdout is not None
        self.log = LogReader(self.popen.stdout, least_level, on_log)

    def end(self, timeout_s: float) -> None:
        """Stops the server, gently for `timeout_s` seconds (0: at once), then by killing.

        Interrupted (Ctrl-C once more), it kills at once and passes the interruption on. Raises
        ServerError if a process survives.
        """
        try:
            if timeout_s > 0 and self.popen.poll() is None:
                self.popen.terminate()
                self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            LOGGER.warning("tritonserver did not stop within %g s and is killed", timeout_s)
        finally:
            self._finish()

    def kill(self) -> None:
        """Kills every process of the server; may be called from a signal handler."""
        guard.kill_group(self.popen.pid)

    def _finish(self) -> None:
        gone = guard.kill_group(self.popen.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(guard.KILL_TIMEOUT_S)
        self.log.join(OUTPUT_TIMEOUT_S)
        self._release_guard()
        if not gone:
            left = guard.group_members(self.popen.pid)
            raise ServerError(f"processes of tritonserver cannot be killed: {left}")

    def _release_guard(self) -> None:
        """Tells the guard that all is done, and waits for its end."""
        with contextlib.suppress(OSError), self._lifeline:
            self._lifeline.settimeout(GUARD_TIMEOUT_S)
            self._lifeline.sendall(b"d")
            self._lifeline.recv(1)
