"""Pass the collector that Triton sends its traces to on to the models."""

from collections.abc import Iterable, Mapping

from conch.launcher.admin import settings_of

ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
RESOURCE = "OTEL_RESOURCE_ATTRIBUTES"
"""Environment variables of OpenTelemetry's SDK."""
OPTION = "--trace-config"
DEFAULT_URL = "http://localhost:4318/v1/traces"
"""Where Triton sends traces by default."""


def trace_environment(extra_args: Iterable[str], base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server, with the collector of its `--trace-config`.

    Args:
        extra_args: The caller's own arguments for `tritonserver`.
        base: Environment so far; its OpenTelemetry variables take precedence.
    """
    pairs = [setting.partition("=") for _, setting in settings_of(extra_args, (OPTION,))]
    settings = [(name, value) for name, _, value in pairs]
    environment = dict(base)
    if ("mode", "opentelemetry") not in settings:
        return environment
    url = dict(settings).get("opentelemetry,url", DEFAULT_URL)
    environment.setdefault(ENDPOINT, url)
    attributes = [value for name, value in settings if name == "opentelemetry,resource"]
    environment.setdefault(RESOURCE, ",".join(attributes))
    return environment
