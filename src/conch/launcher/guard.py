"""Start a server so that it cannot outlive the program that started it.

Run as `python guard.py FD PREFIX DIRECTORY GRACE_S COMMAND…`, this program leaves a watcher behind
and becomes COMMAND. FD is one end of a socket pair; the parent holds the other end. If the parent's
end closes without a byte, the parent was killed or has crashed. The watcher then stops the server's
process group and removes its shared memory and DIRECTORY. A byte on the socket says that the parent
has done all that.

The kernel's own "signal me when my parent dies" is bound to the *thread* that forked: it would stop
the server with a worker thread. A process forked (not spawned) from the parent keeps the parent's
end open, and so the server alive.

The program uses the standard library alone and runs without site-packages, so it starts in
milliseconds.
"""

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

POLL_S = 0.02
KILL_TIMEOUT_S = 5.0
SHARED_MEMORY = Path("/dev/shm")
PR_SET_THP_DISABLE = 41
"""`prctl`'s number of the switch for huge pages, which children inherit."""
STACK_BYTES = 256 * 2**20
"""Stack of each thread of the server. Triton parses JSON on the stack, in twice its size: with the
usual 8 MB, a body of 4 MB crashes it."""


def group_members(group: int) -> list[int]:
    """Return the ids of the living processes in process group `group`, without zombies."""
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            # The name in parentheses may hold anything, so count the fields after it.
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] not in "ZX":
                members.append(int(entry.name))
    return members


def wait_for_group(group: int, timeout_s: float) -> bool:
    """Wait for the group's end; report whether it came within `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while group_members(group):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True


def kill_group(group: int) -> bool:
    """Kill the group; report whether every process of it has gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    return wait_for_group(group, KILL_TIMEOUT_S)


def end_group(group: int, grace_s: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(group, signal.SIGTERM)
    if not wait_for_group(group, grace_s):
        kill_group(group)


def segments(prefix: str) -> list[Path]:
    """Return the shared memory whose names begin with `prefix`; none without a prefix."""
    if not prefix or not SHARED_MEMORY.is_dir():
        return []
    return [path for path in SHARED_MEMORY.iterdir() if path.name.startswith(prefix)]


def remove_leftovers(prefix: str, directory: Path) -> list[str]:
    """Remove `directory` and the shared memory named with `prefix`; return the segments' names."""
    names = []
    for segment in segments(prefix):
        segment.unlink(missing_ok=True)
        names.append(segment.name)
    shutil.rmtree(directory, ignore_errors=True)
    return names


def watch(lifeline: int, group: int, prefix: str, directory: Path, grace_s: float) -> None:
    """Wait for the parent's byte or end; after its end, stop the server and clean up."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    if not os.read(lifeline, 1):
        end_group(group, grace_s)
        remove_leftovers(prefix, directory)


def raise_stack_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_STACK, (wanted, hard))


def main(arguments: list[str]) -> None:
    """Become the command, or exit with 127 if it cannot be run."""
    descriptor, prefix, directory, grace_s, *command = arguments
    lifeline = int(descriptor)
    server = os.getpid()
    if os.fork() == 0:
        # Fork twice: otherwise the watcher would be a child that the server has to reap.
        if os.fork() == 0:
            with contextlib.suppress(OSError):
                watch(lifeline, server, prefix, Path(directory), float(grace_s))
        os._exit(0)
    os.wait()
    os.close(lifeline)
    raise_stack_limit()
    # Networks switch them on again (`conch.component.onnx`); the server itself only gets larger.
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    try:
        os.execv(command[0], command)
    except OSError as error:
        print(f"error: cannot run {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
