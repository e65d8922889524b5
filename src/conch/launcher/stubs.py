"""The state of the processes of Python models."""

import contextlib
import os

from conch.launcher.healing import Look
from conch.processes import model_processes, stat_fields


def look_at(processes: dict[int, str], server: int) -> dict[int, Look]:
    """Return the state of stubs, given with the names of their models, by process id.

    Raises:
        OSError: the state cannot be read, for example without free file descriptors.
    """
    looks = {}
    for process, model in processes.items():
        state, parent = _state_and_parent(process)
        # The id of a process that has gone may belong to another one by now.
        looks[process] = Look(model, state if parent == server else "")
    return looks


def look_at_all(server: int) -> dict[int, Look]:
    """Return the state of a server, under its own name, and of its stubs."""
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
            ticks += sum(map(int, stat_fields(str(process))[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _state_and_parent(process: int) -> tuple[str, int]:
    try:
        state, parent, *_ = stat_fields(str(process))
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return "", 0
    return state, int(parent)
