"""Whoever watches a run hears once that a server is gone, and that it is back."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from waiting import wait_until

from conch.bulk.watch import ServerWatch


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


def test_a_loss_is_told_once_and_so_is_the_return() -> None:
    heard = Heard()
    with ready_server() as port:
        pass
    with ServerWatch([f"http://127.0.0.1:{port}"], {}, heard, look_s=0.02):
        wait_until(lambda: heard.told == ["lost"])
        with ready_server(port):
            wait_until(lambda: heard.told != ["lost"])
            assert heard.told == ["lost", "back"]
