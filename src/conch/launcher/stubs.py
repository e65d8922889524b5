"""The processes of a server: its own, and those of its Python models ("stubs")."""

import contextlib
import os
import signal
from collections.abc import Collection, Iterable, Mapping

from conch.launcher.connections import cut_connections
from conch.launcher.healing import Look
from conch.processes import model_processes, stat_fields


class ServerProcesses:
    """The processes of one server, seen in /proc."""

    def __init__(self, server: int) -> None:
        """Take the process id of `tritonserver`."""
        self.server = server

    def stubs(self) -> dict[int, str]:
        """Return the model of each living stub, by process id."""
        return model_processes(self.server)

    def look_at(self, stubs: Mapping[int, str]) -> dict[int, Look]:
        """Return the state of stubs, given with the names of their models, by process id.

        Raises:
            OSError: the state cannot be read, for example without free file descriptors.
        """
        looks = {}
        for process, model in stubs.items():
            state, parent = _state_and_parent(process)
            # The id of a process that has gone may belong to another one by now.
            looks[process] = Look(model, state if parent == self.server else "")
        return looks

    def look_at_server(self) -> dict[int, Look]:
        """Return the state of the server, under its own name, by process id."""
        return {self.server: Look("tritonserver", _state_and_parent(self.server)[0])}

    def kill(self, process: int) -> None:
        """Kill a process unless it has gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)

    def cut_connections(self, ports: Collection[int]) -> None:
        """End the connections that clients have to these ports; see `connections`."""
        cut_connections(self.server, ports)


def cpu_seconds(processes: Iterable[int]) -> float:
    """Return the CPU time that the living ones of these processes have used."""
    ticks = 0
    for process in processes:
        with contextlib.suppress(OSError, IndexError):
            ticks += sum(map(int, stat_fields(str(process))[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _state_and_parent(process: int) -> tuple[str, int]:
    """Return the letter of a process's state, as proc(5) has it, and its parent's id."""
    try:
        state, parent, *_ = stat_fields(str(process))
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return "", 0
    return state, int(parent)
