"""The server to measure: a running one, or one started for the benchmark."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tritonclient.utils import InferenceServerException

from conch.client.endpoint import Address, Endpoint
from conch.client.gateway import is_gateway
from conch.client.triton_grpc import channel_options
from conch.scoring import require
from conch.wire.errors import ServerError

if TYPE_CHECKING:
    from conch.bench.memory import MemorySampler

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def server_of(
    url: str | None, weights: Mapping[str, str] = MappingProxyType({}), *, is_grpc: bool = False
) -> AbstractContextManager[tuple[str, "MemorySampler | None"]]:
    """Yield the address of a running server, or of a new one (HTTP or gRPC) with its memory."""
    if url is not None:
        return nullcontext((url, None))
    return own_server(weights=weights, is_grpc=is_grpc)


@contextmanager
def own_server(
    *model_repositories: Path,
    weights: Mapping[str, str] = MappingProxyType({}),
    is_grpc: bool = False,
) -> Iterator[tuple[str, "MemorySampler"]]:
    require("psutil", extra="server")
    # Imported here: only a new server needs their packages.
    from conch.bench.memory import MemorySampler
    from conch.launcher import ServerConfig, TritonServer
    from conch.launcher.repositories import shipped_repositories

    print("starting a server", file=sys.stderr)
    config = ServerConfig(
        model_repositories=model_repositories or shipped_repositories(),
        weights=weights,
        log_level="warning",
    )
    # Only the server descends from this process, so the peak includes loading.
    with (
        MemorySampler(os.getpid(), with_root=False) as memory,
        TritonServer(config) as server,
        server.healing(),
    ):
        yield f"grpc://{server.grpc_url}" if is_grpc else server.http_url, memory


def triton_version(url: str, headers: Mapping[str, str] = NO_HEADERS) -> str:
    """Return the server's version, in words where a gateway hides it, or raise a ServerError."""
    endpoint = Endpoint.parse(url, headers=headers)
    if not endpoint.address.is_grpc and is_gateway(endpoint):
        return "behind a gateway"
    with inference_client(url) as (client, as_json):
        metadata = client.get_server_metadata(headers=dict(endpoint.headers), **as_json)
        return str(metadata["version"])


@contextmanager
def inference_client(url: str) -> Iterator[tuple[Any, dict[str, bool]]]:
    """Yield one of Triton's clients, and the argument that makes gRPC answer as HTTP does."""
    address = Address.parse(url)
    # The two protocols' modules are alike but share no type.
    protocol = import_module(f"tritonclient.{'grpc' if address.is_grpc else 'http'}")
    settings = {"channel_args": channel_options(address)} if address.is_grpc else {}
    client = protocol.InferenceServerClient(address.target, ssl=address.is_secure, **settings)
    try:
        yield client, {"as_json": True} if address.is_grpc else {}
    except OSError as error:
        raise ServerError(f"cannot reach a server at {url}: {error}") from None
    except InferenceServerException as error:
        raise ServerError(f"{url}: {error}") from None
    finally:
        client.close()
