"""Connections are cut from outside; here those of this very process."""

import os
import socket

import pytest

from conch.launcher.process import ServerProcesses


def connected(listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Return both ends of a new connection: the client's and the server's."""
    client = socket.create_connection(listener.getsockname(), timeout=10)
    return client, listener.accept()[0]


def test_only_connections_to_these_ports_are_cut() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as cut,
        socket.create_server(("127.0.0.1", 0)) as kept,
    ):
        lost_client, lost_server = connected(cut)
        kept_client, kept_server = connected(kept)
        with lost_client, lost_server, kept_client, kept_server:
            ServerProcesses(os.getpid()).cut_connections({cut.getsockname()[1]})
            assert lost_client.recv(1) == b""
            assert lost_server.recv(1) == b""
            kept_server.sendall(b"x")
            assert kept_client.recv(1) == b"x"
            new_client, new_server = connected(cut)
            with new_client, new_server:
                new_server.sendall(b"y")
                assert new_client.recv(1) == b"y", "the port itself stays open"


def test_a_process_that_is_gone_is_an_error() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(ProcessLookupError):
        ServerProcesses(child).cut_connections({1})
