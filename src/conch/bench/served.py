"""What a running Triton says about itself and its models."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from tritonclient.utils import InferenceServerException

from conch.client.address import Address
from conch.errors import ServerError


def triton_version(url: str) -> str:
    """Return the server's version.

    Raises:
        ServerError: nobody answers there.
    """
    with _client(url) as (client, as_json):
        return str(client.get_server_metadata(**as_json)["version"])


def model_parameters(url: str, model: str) -> dict[str, str]:
    """Return the `parameters` of a model's config.pbtxt.

    Raises:
        ServerError: nobody answers there, or the model is not served.
    """
    with _client(url) as (client, as_json):
        answer = client.get_model_config(model, **as_json)
        # gRPC wraps what HTTP answers with.
        config = answer.get("config", answer)
        return {name: value["string_value"] for name, value in config.get("parameters", {}).items()}


@contextmanager
def _client(url: str) -> Iterator[tuple[Any, dict[str, bool]]]:
    """Yield a client, and the argument that makes the gRPC one answer as the HTTP one does."""
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
