"""Ask a running Triton about itself."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import MappingProxyType
from typing import Any

from tritonclient.utils import InferenceServerException

from conch.client.address import Address
from conch.client.endpoint import Endpoint
from conch.client.gateway import is_gateway
from conch.wire.errors import ServerError

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def triton_version(url: str, headers: Mapping[str, str] = NO_HEADERS) -> str:
    """Return the server's version, in words where a gateway hides it.

    Args:
        url: Address of the server.
        headers: Headers of the request.

    Raises:
        ServerError: no server answers there.
    """
    endpoint = Endpoint.parse(url, headers=headers)
    if not endpoint.address.is_grpc and is_gateway(endpoint):
        return "behind a gateway"
    with inference_client(url) as (client, as_json):
        asked = client.get_server_metadata(headers=dict(endpoint.headers), **as_json)
        return str(asked["version"])


@contextmanager
def inference_client(url: str) -> Iterator[tuple[Any, dict[str, bool]]]:
    """Yield one of Triton's clients, and the argument that makes gRPC answer as HTTP does.

    Raises:
        ServerError: no server answers there, or it refuses the request.
    """
    address = Address.parse(url)
    # The two protocols' modules are alike but share no type.
    protocol = import_module(f"tritonclient.{'grpc' if address.is_grpc else 'http'}")
    client = protocol.InferenceServerClient(address.target, ssl=address.is_secure)
    try:
        yield client, {"as_json": True} if address.is_grpc else {}
    except OSError as error:
        raise ServerError(f"cannot reach a server at {url}: {error}") from None
    except InferenceServerException as error:
        raise ServerError(f"{url}: {error}") from None
    finally:
        client.close()
