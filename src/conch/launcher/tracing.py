"""Tell the models which collector Triton sends its traces to."""

from collections.abc import Iterable, Mapping

ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
RESOURCE = "OTEL_RESOURCE_ATTRIBUTES"
"""Environment variables of OpenTelemetry's SDK."""
OPTION = "--trace-config"
DEFAULT_URL = "http://localhost:4318/v1/traces"
"""Where Triton sends traces if it is not told."""


def trace_environment(extra_args: Iterable[str], base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server, with the collector of its `--trace-config`.

    Args:
        extra_args: The caller's own arguments for `tritonserver`.
        base: Environment so far; what it says of OpenTelemetry stays.
    """
    settings = list(_settings(extra_args))
    environment = dict(base)
    if ("mode", "opentelemetry") not in settings:
        return environment
    url = dict(settings).get("opentelemetry,url", DEFAULT_URL)
    environment.setdefault(ENDPOINT, url)
    attributes = [value for name, value in settings if name == "opentelemetry,resource"]
    environment.setdefault(RESOURCE, ",".join(attributes))
    return environment


def _settings(extra_args: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Yield name and value of each `--trace-config`."""
    arguments = iter(extra_args)
    for argument in arguments:
        option, is_joined, setting = argument.partition("=")
        if option == OPTION:
            setting = setting if is_joined else next(arguments, "")
            name, _, value = setting.partition("=")
            yield name, value
