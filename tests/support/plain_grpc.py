"""A gRPC server of one handler."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc  # type: ignore[import-untyped]


@contextmanager
def grpc_server(handler: grpc.GenericRpcHandler, host: str = "127.0.0.1") -> Iterator[str]:
    """Yield the URL of a server on a free port."""
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool, handlers=[handler])
        port = server.add_insecure_port(f"{host}:0")
        server.start()
        yield f"grpc://{host}:{port}"
        server.stop(None).wait()
