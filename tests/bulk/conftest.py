"""A Ray cluster of three nodes on this machine, and a server for each that needs no models."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bulk_runs import BAD_FILES, FILES

ROOT = Path(__file__).parents[2]
CONCH = Path(os.environ.get("CONCH_SERVER_PROGRAM", ROOT / ".venv" / "bin" / "conch"))
"""The program of the server's environment, which is another one than that of these tests."""


@pytest.fixture(scope="session")
def real_conch() -> Path:
    """Return the program `conch` whose servers have the models."""
    if not CONCH.is_file():
        pytest.skip(f"{CONCH} is missing")
    return CONCH


@pytest.fixture(scope="session")
def plain_conch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program `conch` whose servers need no models."""
    path = tmp_path_factory.mktemp("bin") / "conch"
    script = ROOT / "tests" / "support" / "plain_serve.py"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(scope="session")
def short_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of FILES recordings, BAD_FILES of which are none."""
    folder = tmp_path_factory.mktemp("short")
    for number in range(FILES):
        content = hashlib.sha256(str(number).encode()).digest() * 50
        if number % (FILES // BAD_FILES) == 7:
            content = b"bad" + content
        (folder / f"{number:04d}.wav").write_bytes(content)
    return folder


@pytest.fixture
def bulk() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Return what starts `conch bulk` with arguments; at the end of the test it is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: Any, **environment: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "conch.cli", "bulk", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environment},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
