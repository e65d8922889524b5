"""Servers as child processes, and their traces on the machine."""

import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil

SERVE = [sys.executable, "-m", "conch.cli", "serve"]
ANY_TRITON_PORTS = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
ANY_PORTS = [*ANY_TRITON_PORTS, "--no-gateway"]


def infer(
    http_url: str, values: list[float], model: str = "identity", timeout_s: float = 10
) -> list[float]:
    tensor = {"name": "VALUES", "shape": [len(values)], "datatype": "FP32", "data": values}
    request = urllib.request.Request(
        f"http://{http_url}/v2/models/{model}/infer",
        data=json.dumps({"inputs": [tensor]}).encode(),
    )
    with urllib.request.urlopen(request, timeout=timeout_s) as response:
        found = json.loads(response.read())
    return [float(value) for value in found["outputs"][0]["data"]]


def processes_with(text: str) -> dict[int, str]:
    """Return command lines by process id; server, stubs and guard carry the server's name."""
    found = {}
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if text in line:
            found[process.pid] = line
    return found


def traces_of(name: str) -> list[str]:
    """Return everything on this machine that belongs to the server called `name`."""
    places = (Path("/dev/shm"), Path(tempfile.gettempdir()))
    files = [str(path) for place in places for path in place.glob(f"{name}*")]
    return files + list(processes_with(name).values())


@contextmanager
def running(
    command: Sequence[str], stderr: int | IO[str] = subprocess.PIPE
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run a command of Conch; yield its process and its words of welcome."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True
    ) as process:
        try:
            assert process.stdout is not None
            welcome = ""
            for line in process.stdout:
                welcome += line
                if "Ctrl-C" in line:
                    break
            else:
                said = process.stderr.read() if process.stderr else ""
                raise AssertionError(f"{' '.join(command)} ended: {welcome}{said}")
            yield process, welcome
        finally:
            process.kill()


@contextmanager
def serving(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str, str]]:
    """Yield a ready `conch serve`: the process, its HTTP address and the server's name."""
    with running([*SERVE, *ANY_PORTS, *arguments]) as (process, welcome):
        url = re.search(r"HTTP +http://(\S+)", welcome)
        name = re.search(r"--id=(\S+)", next(iter(children_of(process.pid).values())))
        assert url
        assert name
        yield process, url[1], name[1]


def children_of(parent: int) -> dict[int, str]:
    children = {child.pid for child in psutil.Process(parent).children()}
    servers = processes_with("--id=conch-")
    return {pid: line for pid, line in servers.items() if pid in children}
