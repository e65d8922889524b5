"""A `tritonserver` and the processes of its Python models ("stubs"): one per model instance."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import psutil

STUB = "triton_python_backend_stub"
"""Name of the program that runs one instance of a Python model."""


def model_processes(server: int) -> dict[int, str]:
    """Return the model name of each living stub, by process id, of the server with id `server`."""
    stubs = {}
    try:
        children = psutil.Process(server).children()
    except psutil.NoSuchProcess:
        return {}
    for process in children:
        try:
            command = process.cmdline()
        except psutil.Error:
            continue  # it has ended
        if command and Path(command[0]).name == STUB:
            # Its argument is the path of the model's code: MODEL/VERSION/model.py.
            stubs[process.pid] = Path(command[1]).parts[-3]
    return stubs


def stat_fields(path: str) -> list[str]:
    """Return the fields of /proc/PATH/stat after the name, which may hold anything.

    `path` is a process, as `PID`, or one of its threads, as `PID/task/TID`. Raise an OSError if it
    has gone.
    """
    stat = Path(f"/proc/{path}/stat").read_text(errors="replace")
    return stat.rpartition(")")[2].split()


def settings_of(arguments: Iterable[str], options: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield option and value of each `--option value` and `--option=value` of these options."""
    left = iter(arguments)
    for argument in left:
        option, is_joined, setting = argument.partition("=")
        if option in options:
            yield option, setting if is_joined else next(left, "")
