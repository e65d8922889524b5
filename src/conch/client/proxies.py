"""The HTTP proxy that gRPC takes from the environment; requests over HTTP take none."""

import os
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

from conch.wire.hosts import is_here

VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy")
"""Variables that gRPC reads; the first that is set holds, for connections without TLS too."""
EXCEPTIONS = ("no_grpc_proxy", "no_proxy")


def grpc_proxy(host: str) -> str:
    """Return the proxy in front of a host, in words and without its password; empty for none."""
    variable = next((name for name in VARIABLES if name in os.environ), "")
    proxy = urlsplit(os.environ.get(variable, ""))
    without = next((os.environ[name] for name in EXCEPTIONS if name in os.environ), "")
    if proxy.scheme != "http" or is_here(host) or proxy_bypass_environment(host, {"no": without}):
        return ""
    return f"the proxy {proxy.netloc.rpartition('@')[2]} of {variable}"
