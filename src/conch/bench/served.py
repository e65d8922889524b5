"""Ask a running Triton about itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from tritonclient.utils import InferenceServerException

from conch.client.address import Address
from conch.wire.errors import ServerError


def triton_version(url: str) -> str:
    """Return the server's version.

    Raises:
        ServerError: no server answers there.
    """
    with inference_client(url) as (client, as_json):
        return str(client.get_server_metadata(**as_json)["version"])


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
