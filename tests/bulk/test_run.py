"""Whoever watches a run hears once that a server is gone, and that it is back."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from waiting import wait_until

from conch.bulk.run import absence, watched


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


def test_a_loss_and_the_return_are_each_reported_once() -> None:
    looks: list[str] = []

    def counted(url: str) -> str | None:
        looks.append(url)
        return absence(url)

    heard: list[tuple[str, ...]] = []

    def lost(url: str, reason: str) -> None:
        assert url in reason
        heard.append(("lost", url))

    def back(url: str) -> None:
        heard.append(("back", url))

    with ready_server() as port:
        pass
    url = f"http://127.0.0.1:{port}"
    with watched([url], lost, back, look_s=0.02, absence=counted):
        wait_until(lambda: heard == [("lost", url)])
        seen = len(looks)
        wait_until(lambda: len(looks) > seen + 3)
        assert heard == [("lost", url)]
        with ready_server(port):
            wait_until(lambda: len(heard) > 1)
            assert heard == [("lost", url), ("back", url)]


def test_a_server_that_only_connects_is_not_lost() -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        assert absence(f"grpc://127.0.0.1:{port}") is None
        assert absence(f"http://127.0.0.1:{port}/base/path") is None
    reason = absence(f"grpc://127.0.0.1:{port}")
    assert reason is not None and f"127.0.0.1:{port}" in reason
