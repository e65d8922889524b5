"""The "stub" processes of Python models: one per model instance, children of Triton."""

from pathlib import Path

import psutil

STUB = "triton_python_backend_stub"


def model_processes(server: int) -> dict[int, str]:
    """Return the model name of each stub, by process id, of the server with id `server`."""
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


def dead_models(processes: dict[int, str]) -> list[str]:
    """Return the sorted names of the models of which a process died by itself.

    Triton reaps a process that it ends itself, for example when it unloads a model. One that
    crashed or was killed stays a zombie.
    """
    return sorted({model for process, model in processes.items() if _is_zombie(process)})


def _children(server: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(server).children())
    except psutil.NoSuchProcess:
        return []


def _is_zombie(process: int) -> bool:
    try:
        return bool(psutil.Process(process).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
