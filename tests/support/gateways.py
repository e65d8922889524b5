"""Gateways as child processes, reached by nothing but their addresses."""

import re
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from servers import ANY_TRITON_PORTS, SERVE, running

GATEWAY = [sys.executable, "-m", "conch.cli", "gateway"]
RIVA = ["--riva", "127.0.0.1:0"]
_ADDRESS = re.compile(r"^ +gateway +(https?://\S+)", re.MULTILINE)
_GRPC = re.compile(r"^ +gRPC +(grpc://\S+)", re.MULTILINE)
_RIVA = re.compile(r"^ +Riva +grpcs?://(\S+)", re.MULTILINE)
_METRICS = re.compile(r"^ +metrics +(http://\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Gateway:
    """What a client knows of a gateway."""

    url: str
    """`http://HOST:PORT` or `https://HOST:PORT`."""
    grpc_url: str = ""
    """Address of the Conch behind it, where the test started it."""
    metrics_url: str = ""
    """Address of that Triton's metrics."""
    ca: str = ""
    """File of the authority that signed its certificate; empty without TLS."""
    key: str = ""
    """An API key that it takes; empty if it takes every client."""
    keys_file: str = ""
    """File of further keys."""
    riva: str = ""
    """`HOST:PORT` of Riva's API."""

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def trust(self) -> ssl.SSLContext:
        """Return what a client of Python trusts the gateway's certificate by."""
        return ssl.create_default_context(cafile=self.ca)


def new_key(name: str, keys_file: str, *limits: str) -> str:
    """Make a key as an administrator does, and return it; a running gateway takes it at once."""
    command = [*GATEWAY, "keys", "add", name, *limits, "--keys", keys_file]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def serving_gateway(*arguments: str) -> Iterator[Gateway]:
    """Yield the gateway of a ready `conch serve`; stop the server as Ctrl-C does."""
    command = [*SERVE, *ANY_TRITON_PORTS, "--gateway", "127.0.0.1:0", *RIVA, *arguments]
    with _running(command) as welcome:
        url, grpc, metrics, riva = (
            _found(pattern, welcome) for pattern in (_ADDRESS, _GRPC, _METRICS, _RIVA)
        )
        yield Gateway(url, grpc, metrics, riva=riva)


@contextmanager
def gateway_alone(
    *arguments: str, ca: str = "", key: str = "", keys_file: str = ""
) -> Iterator[Gateway]:
    """Yield a ready `conch gateway` in front of a server that runs already."""
    with _running([*GATEWAY, "--listen", "127.0.0.1:0", *RIVA, *arguments]) as welcome:
        url, riva = _found(_ADDRESS, welcome), _found(_RIVA, welcome)
        yield Gateway(url, ca=ca, key=key, keys_file=keys_file, riva=riva)


def _found(pattern: re.Pattern[str], welcome: str) -> str:
    match = pattern.search(welcome)
    assert match, welcome
    return match[1]


@contextmanager
def _running(command: list[str]) -> Iterator[str]:
    """Run a command of Conch, yield its welcome, and stop it as Ctrl-C does."""
    with (
        tempfile.TemporaryDirectory() as folder,
        # The log is not read while the server runs, and a full pipe would stop it.
        (Path(folder) / "log").open("w+") as log,
    ):
        try:
            with running(command, log) as (process, welcome):
                yield welcome
                process.send_signal(signal.SIGINT)
                process.wait(60)
        except AssertionError:
            log.seek(0)
            print(log.read(), file=sys.stderr)
            raise
