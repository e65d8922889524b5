"""A real `tritonserver` and a gateway in front of it, for the tests that are marked `server`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from own_gateway import OwnGateway, own_gateway
from recordings import Recording, recordings_of

from conch.launcher import ServerConfig, TritonServer

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"


@pytest.fixture(scope="session")
def server() -> Iterator[TritonServer]:
    repositories = ROOT / "bls_models", ROOT / "component_models"
    # Triton waits for idle connections of clients as well.
    config = ServerConfig(model_repositories=repositories, stop_timeout_s=8)
    with TritonServer(config) as running:
        yield running


@pytest.fixture(scope="session")
def grpc_url(server: TritonServer) -> str:
    return f"grpc://{server.grpc_url}"


@pytest.fixture(scope="session")
def metrics_url(server: TritonServer) -> str:
    return server.metrics_url


@pytest.fixture(scope="session")
def inner_gateway(grpc_url: str) -> Iterator[OwnGateway]:
    """Return a gateway of this process in front of the server."""
    with own_gateway(grpc_url) as running:
        yield running


@pytest.fixture(scope="session")
def gateway_url(inner_gateway: OwnGateway) -> str:
    """Return its address, as `http://HOST:PORT`."""
    return inner_gateway.url


@pytest.fixture(scope="session")
def recordings() -> list[Recording]:
    """Return the utterances of tests/data with their references."""
    return recordings_of(DATA)
