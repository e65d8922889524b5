"""Ask a running Triton about its models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conch.bench.servers import inference_client


def model_parameters(url: str, model: str) -> dict[str, str]:
    """Return the `parameters` of a model's config.pbtxt.

    Raises:
        ServerError: no server answers there, or it does not serve the model.
    """
    with inference_client(url) as (client, as_json):
        answer = client.get_model_config(model, **as_json)
        # gRPC wraps the answer of HTTP.
        config = answer.get("config", answer)
        return {name: value["string_value"] for name, value in config.get("parameters", {}).items()}


@dataclass(frozen=True, slots=True)
class ModelWork:
    """What a model has done since the server started, counted by requests."""

    requests: int = 0
    queue_s: float = 0.0
    """Sum over requests of the wait for an instance."""
    compute_s: float = 0.0
    """Sum over requests of their executions; each request of a batch counts all of it.

    For a Python backend that includes copies of tensors to and from shared memory, and
    the switch to its process.
    """


def model_work(url: str, models: Sequence[str]) -> dict[str, ModelWork]:
    """Return Triton's own statistics of models.

    Raises:
        ServerError: no server answers there, or it does not serve a model.
    """
    found = {}
    with inference_client(url) as (client, as_json):
        for model in models:
            (stats,) = client.get_inference_statistics(model, **as_json)["model_stats"]
            # gRPC leaves out zeros, and writes numbers as text.
            parts = stats.get("inference_stats", {})
            ns = {name: int(part.get("ns", 0)) for name, part in parts.items()}
            compute = sum(ns.get(f"compute_{part}", 0) for part in ("input", "infer", "output"))
            found[model] = ModelWork(
                int(parts.get("success", {}).get("count", 0)),
                ns.get("queue", 0) / 1e9,
                compute / 1e9,
            )
    return found


@dataclass(frozen=True, slots=True)
class ServedStage:
    """A component's part of a request, as Triton or a queue counts it; a mean."""

    calls: float
    queue_ms: float
    """Milliseconds of waiting for an instance."""
    compute_ms: float


def stages_since(
    before: Mapping[str, ModelWork], after: Mapping[str, ModelWork], requests: int
) -> dict[str, ServedStage]:
    """Return the mean of some requests by model."""
    return {
        model: ServedStage(
            (work.requests - before[model].requests) / requests,
            1000 * (work.queue_s - before[model].queue_s) / requests,
            1000 * (work.compute_s - before[model].compute_s) / requests,
        )
        for model, work in after.items()
    }
