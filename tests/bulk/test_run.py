"""Whoever watches a run hears once that a server is gone, and that it is back."""

import socket

from http_server import Asked, http_server
from waiting import wait_until

from conch.bulk.run import absence, watched


def ready(asked: Asked) -> tuple[int, bytes]:
    return 200, b""


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

    with http_server(ready) as port:
        pass
    url = f"http://127.0.0.1:{port}"
    with watched([url], lost, back, look_s=0.02, absence=counted):
        wait_until(lambda: heard == [("lost", url)])
        seen = len(looks)
        wait_until(lambda: len(looks) > seen + 3)
        assert heard == [("lost", url)]
        with http_server(ready, port=port):
            wait_until(lambda: len(heard) > 1)
            assert heard == [("lost", url), ("back", url)]


def test_a_server_that_only_connects_is_not_lost() -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        assert absence(f"grpc://127.0.0.1:{port}") is None
        assert absence(f"http://127.0.0.1:{port}/base/path") is None
    reason = absence(f"grpc://127.0.0.1:{port}")
    assert reason is not None and f"127.0.0.1:{port}" in reason
