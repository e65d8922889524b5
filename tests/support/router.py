"""A real HAProxy with the configuration of `conch deploy haproxy`."""

import os
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from waiting import wait_until

from conch.deploy.haproxy import BackendServer, Router, haproxy_config


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on, nor gets for a connection of his own."""
    found: list[int] = []
    while len(found) < count:
        # Below those that the system gives to connections.
        port = random.randrange(20_000, 32_000)
        with closing(socket.socket()) as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            found += [port] * (port not in found)
    return found


def is_open(port: int) -> bool:
    """Return whether somebody listens on a port of loopback."""
    with closing(socket.socket()) as one:
        one.settimeout(1)
        return one.connect_ex(("127.0.0.1", port)) == 0


class RunningRouter:
    def __init__(self, folder: Path, router: Router, process: "subprocess.Popen[bytes]") -> None:
        self._file, self._router, self._process = folder / "haproxy.cfg", router, process
        self.gateway_url = f"http://127.0.0.1:{router.gateway[1]}"
        self.http_url = f"http://127.0.0.1:{router.http_port}"
        self.grpc_url = f"grpc://127.0.0.1:{router.grpc_port}"
        self.figures_url = f"http://127.0.0.1:{router.stats_port}"

    def command(self, text: str) -> str:
        """Send a command to the admin socket and return the answer."""
        with closing(socket.socket(socket.AF_UNIX)) as admin:
            admin.settimeout(10)
            admin.connect(self._router.admin_socket)
            admin.sendall(f"{text}\n".encode())
            return b"".join(iter(lambda: admin.recv(65_536), b"")).decode()

    def drain(self, server: BackendServer) -> None:
        """Give a server nothing new."""
        assert not self.command(f"set server servers/{server.name} state drain").strip()

    def is_up(self, server: BackendServer) -> bool:
        """Return whether a server gets streams that are new."""
        rows = self.command("show stat").splitlines()
        names = rows[0].lstrip("# ").split(",")
        for row in rows[1:]:
            values = dict(zip(names, row.split(","), strict=False))
            if (values.get("pxname"), values.get("svname")) == ("servers", server.name):
                return values["status"] == "UP"
        return False

    def reload(self, servers: Sequence[BackendServer]) -> None:
        """Take other servers, once the present process could hand its streams on."""
        wait_until(lambda: "resync_timeout=<PAST>" in self.command("show peers"))
        old = self._pid()
        self._file.write_text(haproxy_config(servers, self._router, "test"))
        os.kill(self._process.pid, signal.SIGUSR2)
        wait_until(lambda: self._pid() != old)

    def _pid(self) -> str:
        try:
            found = self.command("show info").splitlines()
        except OSError:  # between two processes
            return ""
        return next((line for line in found if line.startswith("Pid:")), "")


@contextmanager
def routing(folder: Path, servers: Sequence[BackendServer]) -> Iterator[RunningRouter]:
    """Yield an HAProxy in front of servers, on free ports of loopback.

    Args:
        folder: For its files.
        servers: Those that it begins with.
    """
    program = shutil.which("haproxy")
    if program is None:
        pytest.skip("haproxy is missing: apt-get install haproxy")
    ports = free_ports(5)
    router = Router(
        gateway=("127.0.0.1", ports[0]),
        http_port=ports[1],
        grpc_port=ports[2],
        stats_port=ports[3],
        peers_port=ports[4],
        admin_socket=str(folder / "admin.sock"),
        user="",
    )
    file = folder / "haproxy.cfg"
    file.write_text(haproxy_config(servers, router, "test"))
    with (folder / "haproxy.log").open("ab") as log:
        process = subprocess.Popen([program, "-W", "-f", file], stdout=log, stderr=log)
    try:
        wait_until(lambda: process.poll() is not None or is_open(router.grpc_port))
        assert process.poll() is None, (folder / "haproxy.log").read_text()
        yield RunningRouter(folder, router, process)
    finally:
        process.terminate()
        process.wait(timeout=30)
