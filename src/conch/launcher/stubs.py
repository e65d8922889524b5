"""What the processes of Python models show at a look."""

import contextlib
import os

from conch.launcher.healing import Look
from conch.processes import model_processes, stat_fields


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
            ticks += sum(map(int, stat_fields(str(process))[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _state_and_parent(process: int) -> tuple[str, int]:
    try:
        state, parent, *_ = stat_fields(str(process))
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return "", 0
    return state, int(parent)
