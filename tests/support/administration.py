"""Models of a server that a test loads and unloads."""

import urllib.request

from conch.launcher import TritonServer

_KEY = "test-key"
OPEN = f"--http-restricted-api=model-repository:{_KEY}={_KEY}"
"""Argument of a server that the test administers."""


def administer(server: TritonServer, model: str, action: str) -> None:
    """Do what a launcher does: `load` or `unload`."""
    url = f"http://{server.http_url}/v2/repository/models/{model}/{action}"
    request = urllib.request.Request(url, b"{}", {_KEY: _KEY}, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200
