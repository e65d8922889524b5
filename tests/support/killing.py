"""A server that is gone from one moment to the next, as with the machine that it runs on."""

import os
import re
import signal

import psutil
from gateways import Gateway
from servers import traces_of
from waiting import wait_until


def listener_at(url: str) -> int:
    """Return the id of the process that listens at a port of this machine."""
    port = int(url.rpartition(":")[2])
    found: set[int] = {
        socket.pid
        for socket in psutil.net_connections("tcp")
        if socket.status == psutil.CONN_LISTEN and socket.laddr.port == port and socket.pid
    }
    assert len(found) == 1, f"{len(found)} processes listen at {url}"
    return found.pop()


def kill_server(gateway: Gateway) -> None:
    """Kill `conch serve` with its gateway, and its Triton; what watches Triton cleans up."""
    conch, triton = listener_at(gateway.url), listener_at(gateway.grpc_url)
    name = re.search(r"--id=(\S+)", " ".join(psutil.Process(triton).cmdline()))
    assert name
    # Conch first: it would start another Triton.
    for process in (conch, triton):
        os.kill(process, signal.SIGKILL)
    wait_until(lambda: not traces_of(name[1]))
