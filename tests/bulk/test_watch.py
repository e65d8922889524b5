"""Whoever watches a run hears once that a server is gone, and that it is back."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from waiting import wait_until

from conch.bulk import watch
from conch.bulk.watch import watched


class Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def ready_server(port: int = 0) -> Iterator[int]:
    with HTTPServer(("127.0.0.1", port), Ready) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


class Heard:
    def __init__(self) -> None:
        self.told: list[str] = []

    def server_lost(self, url: str, reason: str) -> None:
        assert url in reason
        self.told.append("lost")

    def server_back(self, url: str) -> None:
        self.told.append("back")


def test_a_loss_and_the_return_are_each_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    absence = watch.absence

    def counted(url: str) -> str | None:
        looks.append(url)
        return absence(url)

    monkeypatch.setattr(watch, "absence", counted)
    heard = Heard()
    with ready_server() as port:
        pass
    with watched([f"http://127.0.0.1:{port}"], heard, look_s=0.02):
        wait_until(lambda: heard.told == ["lost"])
        seen = len(looks)
        wait_until(lambda: len(looks) > seen + 3)
        assert heard.told == ["lost"]
        with ready_server(port):
            wait_until(lambda: heard.told != ["lost"])
            assert heard.told == ["lost", "back"]


def test_a_server_that_only_connects_is_not_lost() -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        assert watch.absence(f"grpc://127.0.0.1:{port}") is None
        assert watch.absence(f"http://127.0.0.1:{port}/base/path") is None
    reason = watch.absence(f"grpc://127.0.0.1:{port}")
    assert reason is not None and f"127.0.0.1:{port}" in reason
