"""Loading a model over the server's own API, against a plain HTTP server."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from conch.triton.components import load
from conch.wire.entry_points import OnDemandSettings
from conch.wire.errors import ComponentError

ANSWERS: dict[str, tuple[int, bytes]] = {
    "/models/vad/load": (200, b""),
    "/models/rescorer/load": (
        400,
        json.dumps(
            {"error": "load failed: ValueError: torn\n\nAt:\n  /srv/model.py(3)\n"}
        ).encode(),
    ),
    "/models/punctuator/load": (503, b"not json"),
    "/models/neural_rescorer/load": (500, b""),
}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status, body = ANSWERS[self.path] if self.headers["x-key"] == "secret" else (403, b"no key")
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/models"
        server.shutdown()
        thread.join()


def loaded(url: str, model: str, key: str = "secret") -> None:
    asyncio.run(load(OnDemandSettings((model,), url, {"x-key": key}), model))


def test_a_model_is_loaded_whatever_proxy_there_is(url, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    loaded(url, "vad")


@pytest.mark.parametrize(
    ("model", "key", "said"),
    [
        ("rescorer", "secret", "^load failed: ValueError: torn$"),
        ("punctuator", "secret", "^not json$"),
        ("neural_rescorer", "secret", "500"),
        ("vad", "wrong", "^no key$"),
    ],
)
def test_the_error_is_the_servers_without_its_folders(url, model, key, said):
    with pytest.raises(ComponentError, match=said):
        loaded(url, model, key)


def test_a_server_that_does_not_answer_is_an_error():
    with pytest.raises(ComponentError, match=r"^the server has not answered: .*refused"):
        loaded("http://127.0.0.1:1/models", "vad")
