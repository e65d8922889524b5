"""A real `conch serve`, in a process of its own, on free ports."""

import asyncio
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from conch.launcher.repositories import shipped_repositories
from conch.processes import model_processes
from conch.wire.errors import ServerError
from lab.chaos.doors import Addresses
from lab.chaos.hanging_models import HangingModels

START_S = 300.0
"""Longest start: other programs may be busy on the machine."""
STOP_S = 60.0
SMALL_MEMORY = 'mount -t tmpfs -o size={megabytes}m tmpfs /dev/shm && exec "$@"'
_LINES = {
    "http": re.compile(r"HTTP +http://(\S+)"),
    "grpc": re.compile(r"gRPC +grpc://(\S+)"),
    "metrics": re.compile(r"metrics +(\S+)"),
    "gateway": re.compile(r"gateway +(\S+)"),
    "models": re.compile(r"models +(.+)"),
}


class Serve:
    """`conch serve` with its log in a file."""

    def __init__(
        self,
        folder: Path,
        models: Sequence[str] = (),
        shared_memory_mb: int | None = None,
        hanging: HangingModels | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        """Prepare a server, whose log goes to a folder; nothing runs before `start`.

        No `models` are all of them. `hanging` takes the place of Conch's components, and
        `shared_memory_mb` is the size of a `/dev/shm` of its own.
        """
        self.hanging = hanging
        self.log = folder / "serve.log"
        self._models, self._shared_memory_mb = models, shared_memory_mb
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._said: dict[str, str] = {}
        self.starts = 0

    @property
    def addresses(self) -> Addresses:
        said = self._said
        return Addresses(said["http"], said["grpc"], said["metrics"], said["gateway"])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def triton(self) -> int | None:
        """Process id of `tritonserver`, None while there is none."""
        for child in psutil.Process(self.pid).children():
            try:
                if Path(child.exe()).name == "tritonserver":
                    return int(child.pid)
            except psutil.Error:
                continue  # it has ended
        return None

    def stubs(self) -> dict[int, str]:
        """Return the model of each process of a model, by process id."""
        triton = self.triton
        return {} if triton is None else model_processes(triton)

    async def start(self) -> float:
        """Start it, wait until it is ready, and return the seconds that this took."""
        begun = time.monotonic()
        self.starts += 1
        self._said = {}
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command(),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
        is_ready = asyncio.Event()
        self._reading = asyncio.create_task(self._read(is_ready))
        with suppress(TimeoutError):
            await asyncio.wait_for(is_ready.wait(), START_S)
        if len(self._said) < len(_LINES):
            await self.stop()
            raise ServerError(f"conch serve did not become ready; its log is {self.log}")
        return time.monotonic() - begun

    async def stop(self) -> float:
        """Send SIGTERM, wait for the end, and return the seconds that this took."""
        assert self._process is not None and self._reading is not None
        begun = time.monotonic()
        if self._process.returncode is None:
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_S)
        except TimeoutError:
            # The second signal: it kills what it has started.
            self._process.send_signal(signal.SIGTERM)
            await self._process.wait()
        await self._reading
        return time.monotonic() - begun

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "conch.cli", "serve", "--gateway", "0"]
        for port in ("http", "grpc", "metrics"):
            command += [f"--{port}-port", "0"]
        command += ["--startup-timeout", f"{START_S:g}", "--log-level", "warning"]
        if self.hanging:
            repositories = (shipped_repositories()[0], self.hanging.repository)
            command += [f"--model-repository={path}" for path in repositories]
        command += self._arguments
        command += ["--models", ",".join(self._models) or "all"]
        if self._shared_memory_mb is None:
            return command
        mount = SMALL_MEMORY.format(megabytes=self._shared_memory_mb)
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh", *command]

    async def _read(self, is_ready: asyncio.Event) -> None:
        assert self._process is not None and self._process.stdout is not None
        async for line in self._process.stdout:
            for name, pattern in _LINES.items():
                if match := pattern.search(line.decode()):
                    self._said[name] = match[1]
            if len(self._said) == len(_LINES):
                is_ready.set()
        is_ready.set()


async def can_have_small_memory() -> bool:
    """Return whether this machine lets a program have a `/dev/shm` of its own."""
    if shutil.which("unshare") is None:
        return False
    mount = SMALL_MEMORY.format(megabytes=1)
    trial = await asyncio.create_subprocess_exec(
        *("unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh", "true"),
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await trial.wait() == 0


def say(message: str) -> None:
    print(f"chaos: {message}", file=sys.stderr, flush=True)
