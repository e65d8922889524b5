"""A server of HTTP whose answers a function makes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple


class Asked(NamedTuple):
    method: str
    path: str
    headers: Message


@contextmanager
def http_server(
    answer: Callable[[Asked], tuple[int, bytes]], *, port: int = 0, protocol: str = "HTTP/1.0"
) -> Iterator[int]:
    """Yield the port of a server on this machine; `answer` gives a status and a body."""

    class Answers(BaseHTTPRequestHandler):
        protocol_version = protocol

        def handle(self) -> None:
            with suppress(ConnectionError):  # by who keeps a connection beyond the end
                super().handle()

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = answer(Asked(self.command, self.path, self.headers))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Answers) as server:
        # Or it would wait for connections that others keep.
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
