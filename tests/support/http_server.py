"""A server of HTTP whose answers a function makes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import MappingProxyType
from typing import NamedTuple


class Asked(NamedTuple):
    method: str
    path: str
    headers: Message
    body: bytes


@contextmanager
def http_server(
    answer: Callable[[Asked], tuple[int, bytes]],
    *,
    port: int = 0,
    protocol: str = "HTTP/1.0",
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[int]:
    """Yield the port of a server on this machine; `answer` gives a status and a body.

    Every answer has the `headers` too.
    """

    class Answers(BaseHTTPRequestHandler):
        protocol_version = protocol

        def handle(self) -> None:
            with suppress(ConnectionError):  # by who keeps a connection beyond the end
                super().handle()

        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = answer(Asked(self.command, self.path, self.headers, sent))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
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
