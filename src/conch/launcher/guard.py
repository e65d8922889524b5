"""Starts a server so that it cannot outlive the program that wanted it.

Run as a program (`python guard.py FD PREFIX DIRECTORY GRACE_S COMMAND…`), it leaves a watcher
behind and becomes COMMAND. FD is one end of a socket pair held by the parent. When the parent's
end closes with nothing said, killed or crashed, the watcher stops the server's process group
and removes its shared memory and DIRECTORY. A byte on the socket says that the parent has done
all that.

A socket, because the kernel's own "signal me when my parent dies" is bound to the *thread* that
forked and would stop the server with a worker thread. A process forked from the parent (not
spawned) keeps its end open and so keeps the server too.

Only the standard library: the program runs without site-packages, for a start in milliseconds.
"""

import contextlib
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
STACK_BYTES = 256 * 2**20
"""Of each thread of the server. Triton parses JSON on the stack, twice its size: with the usual
8 MB, a body of 4 MB ends the server."""


def group_members(group: int) -> list[int]:
    """Process ids in process group `group`, without those that are dead and not yet reaped."""
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            # The name in parentheses may hold anything, so fields are counted after it.
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] not in "ZX":
                members.append(int(entry.name))
    return members


def wait_for_group(group: int, timeout_s: float) -> bool:
    """Whether every process of the group has gone within the time."""
    deadline = time.monotonic() + timeout_s
    while group_members(group):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True


def kill_group(group: int) -> bool:
    """Kills what is left of the group; False if something survives even that."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    return wait_for_group(group, KILL_TIMEOUT_S)


def end_group(group: int, grace_s: float) -> None:
    """Asks the group's leader to stop, then kills what is left after `grace_s` seconds."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(group, signal.SIGTERM)
    if not wait_for_group(group, grace_s):
        kill_group(group)


def remove_leftovers(prefix: str, directory: Path) -> list[str]:
    """Removes shared-memory segments named with `prefix`, and `directory`; returns the names."""
    names = []
    if prefix and SHARED_MEMORY.is_dir():
        for segment in SHARED_MEMORY.iterdir():
            if segment.name.startswith(prefix):
                segment.unlink(missing_ok=True)
                names.append(segment.name)
    shutil.rmtree(directory, ignore_errors=True)
    return names


def watch(lifeline: int, group: int, prefix: str, directory: Path, grace_s: float) -> None:
    """Waits for the parent's word or end."""
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
    """Gives this process, and what it becomes, a stack of STACK_BYTES where that is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_STACK, (wanted, hard))


def main(arguments: list[str]) -> None:
    """Never returns: becomes the command, or exits with 127 when it cannot be run."""
    descriptor, prefix, directory, grace_s, *command = arguments
    lifeline = int(descriptor)
    server = os.getpid()
    if os.fork() == 0:
        # Forked twice: the watcher must not stay a child that the server would have to reap.
        if os.fork() == 0:
            with contextlib.suppress(OSError):
                watch(lifeline, server, prefix, Path(directory), float(grace_s))
        os._exit(0)
    os.wait()
    os.close(lifeline)
    raise_stack_limit()
    try:
        os.execv(command[0], command)
    except OSError as error:
        print(f"error: cannot run {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
