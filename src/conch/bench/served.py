"""What a running Triton says about itself and its models."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tritonclient.utils import InferenceServerException

from conch.client.address import Address
from conch.wire.errors import ServerError


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


@dataclass(frozen=True, slots=True)
class ModelWork:
    """What a model has done since the server started, counted by requests."""

    requests: int = 0
    queue_s: float = 0.0
    """Sum over requests of the wait for an instance."""
    compute_s: float = 0.0
    """Sum over requests of the execution that they were in: of a batch each counts all of it.

    Of a Python backend that includes the copies of its tensors into and out of shared memory and
    the hand-over to its process.
    """


def model_work(url: str, models: Sequence[str]) -> dict[str, ModelWork]:
    """Return Triton's own statistics of models.

    Raises:
        ServerError: nobody answers there, or a model is not served.
    """
    found = {}
    with _client(url) as (client, as_json):
        for model in models:
            (stats,) = client.get_inference_statistics(model, **as_json)["model_stats"]
            # gRPC leaves out what is 0, and writes numbers as text.
            parts = stats.get("inference_stats", {})
            ns = {name: int(part.get("ns", 0)) for name, part in parts.items()}
            compute = sum(ns.get(f"compute_{part}", 0) for part in ("input", "infer", "output"))
            found[model] = ModelWork(
                int(parts.get("success", {}).get("count", 0)),
                ns.get("queue", 0) / 1e9,
                compute / 1e9,
            )
    return found


def stages_since(
    before: Mapping[str, ModelWork], after: Mapping[str, ModelWork], requests: int
) -> dict[str, dict[str, float]]:
    """Return calls, queue_ms and compute_ms of one request by model, as means."""
    return {
        model: {
            "calls": (work.requests - before[model].requests) / requests,
            "queue_ms": 1000 * (work.queue_s - before[model].queue_s) / requests,
            "compute_ms": 1000 * (work.compute_s - before[model].compute_s) / requests,
        }
        for model, work in after.items()
    }


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
