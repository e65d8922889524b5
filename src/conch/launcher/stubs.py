"""The processes in which Python models run: one "stub" per model instance, children of Triton."""

import contextlib
from pathlib import Path

STUB = "triton_python_backend_stub"


def model_processes(server: int) -> dict[int, str]:
    """Model name by process id, of the server with process id `server`."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if _state_and_parent(entry)[1] != server:
                continue
            command = (entry / "cmdline").read_text().split("\0")
            if Path(command[0]).name == STUB:
                # Called with the path of the model's code: MODEL/VERSION/model.py.
                found[int(entry.name)] = Path(command[1]).parts[-3]
    return found


def dead_models(processes: dict[int, str]) -> list[str]:
    """Names of the models of which a process died by itself.

    Triton waits for a process that it ends itself, as when a model is unloaded. It does not look
    after one that crashed or was killed, which so stays a zombie.
    """
    dead = set()
    for process, model in processes.items():
        with contextlib.suppress(OSError):
            if _state_and_parent(Path(f"/proc/{process}"))[0] == "Z":
                dead.add(model)
    return sorted(dead)


def _state_and_parent(entry: Path) -> tuple[str, int]:
    # The name in parentheses may hold anything, so fields are counted after it.
    fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return fields[0], int(fields[1])
