"""The Pythons of this machine."""

import shutil
import subprocess
from pathlib import Path


def interpreter(version: str) -> str | None:
    """Return the program of a version such as 3.12, on PATH or by pyenv; None where there is none.

    pyenv puts a program for every version that it has on PATH, which fails for those not chosen.
    """
    installed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for candidate in (shutil.which(f"python{version}"), *map(str, installed)):
        if candidate and _version_of(candidate) == version:
            return candidate
    return None


def _version_of(program: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([program, "-c", code], capture_output=True, text=True)
    return done.stdout.strip()
