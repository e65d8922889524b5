"""The "stub" processes of Python models: one per model instance, children of Triton."""

import contextlib
import os
from pathlib import Path

import psutil

from conch.launcher.healing import Look

STUB = "triton_python_backend_stub"


def model_processes(server: int) -> dict[int, str]:
    """Return the model name of each stub, by process id, of the server with id `server`.

    A process that has ended has no name any more, and is left out.
    """
    found = {}
    for process in _children(server):
        try:
            command = process.cmdline()
        except psutil.Error:
            continue  # it has ended
        if command and Path(command[0]).name == STUB:
            # Its argument is the path of the model's code: MODEL/VERSION/model.py.
            found[process.pid] = Path(command[1]).parts[-3]
    return found


def look_at(processes: dict[int, str], server: int) -> dict[int, Look]:
    """Return what each stub, given with its model's name, shows now.

    Raises:
        OSError: nothing can be seen, for example for want of file descriptors.
    """
    looks = {}
    for process, model in processes.items():
        state, parent = _state_and_parent(process)
        # The number of a process that has gone may be another one's by now.
        looks[process] = Look(model, state if parent == server else "")
    return looks


def look_at_all(server: int) -> dict[int, Look]:
    """Return what a server, under its own name, and its stubs show now."""
    looks = look_at(model_processes(server), server)
    return {server: Look("tritonserver", state_of(server)), **looks}


def state_of(process: int) -> str:
    """Return the letter of a process's state, as proc(5) has it; empty if there is none."""
    return _state_and_parent(process)[0]


def cpu_seconds(processes: dict[int, str]) -> float:
    """Return the CPU time that the living ones of these processes have used."""
    ticks = 0
    for process in processes:
        with contextlib.suppress(OSError, IndexError):
            ticks += sum(map(int, _fields(process)[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _state_and_parent(process: int) -> tuple[str, int]:
    try:
        state, parent, *_ = _fields(process)
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return "", 0
    return state, int(parent)


def _fields(process: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, which may hold anything."""
    stat = Path(f"/proc/{process}/stat").read_text(errors="replace")
    return stat.rpartition(")")[2].split()


def _children(server: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(server).children())
    except psutil.NoSuchProcess:
        return []
