"""Programs that run to their end."""

import subprocess
from typing import Any


def output_of(*command: object, timeout_s: float = 120, **settings: Any) -> str:
    """Return what a program that does not fail writes to standard output."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [str(item) for item in command],
        **{"stdin": subprocess.DEVNULL, **settings},
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
