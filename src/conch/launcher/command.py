"""The command line of `tritonserver`."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from conch.launcher.admin import Restriction
from conch.launcher.config import ServerConfig
from conch.launcher.installation import Installation

# More than the calls of a model in flight (max_calls_in_flight of speech), as they send its answers
# too; but every instance of every model has so many, and each that waits makes waking another one
# dearer (docs/notes/performance.md).
BLS_THREADS = 64

# The server waits for requests in flight, and after that the launcher for the server.
EXIT_MARGIN_S = 2.0


@dataclass(frozen=True)
class Endpoints:
    """Where a server listens."""

    address: str
    http_port: int
    grpc_port: int
    metrics_port: int

    @property
    def reachable(self) -> str:
        """An address to connect to: listening on every interface includes the loopback."""
        return "127.0.0.1" if self.address == "0.0.0.0" else self.address


def server_command(
    config: ServerConfig,
    installation: Installation,
    endpoints: Endpoints,
    *,
    name: str,
    segment_prefix: str,
    directory: Path,
    restricted: Iterable[Restriction],
) -> Sequence[str]:
    """Arguments for one start; builds the wheel's backend directory inside `directory`."""
    command = [str(installation.tritonserver), f"--id={name}"]
    backends = installation.backend_directory
    if installation.python_backend is not None:
        backends = installation.python_backend.link_into(directory)
    if backends is not None:
        command.append(f"--backend-directory={backends}")
    command += [f"--model-repository={path}" for path in config.model_repositories]
    if config.model_config:
        command.append(f"--model-config-name={config.model_config}")
    if config.models:
        command.append("--model-control-mode=explicit")
        command += [f"--load-model={model}" for model in config.models]
    for service in ("http", "grpc", "metrics"):
        command.append(f"--{service}-address={endpoints.address}")
        command.append(f"--{service}-port={getattr(endpoints, f'{service}_port')}")
    command += [
        "--disable-auto-complete-config",
        "--exit-on-error=true",
        "--strict-readiness=true",
        f"--exit-timeout-secs={max(1, math.floor(config.stop_timeout_s - EXIT_MARGIN_S))}",
        f"--backend-config=python,shm-region-prefix-name={segment_prefix}",
        f"--backend-config=python,thread-pool-size={BLS_THREADS}",
        # A failed start is explained from these lines; what is forwarded is decided here.
        "--log-info=true",
        "--log-warning=true",
        "--log-error=true",
        f"--log-verbose={1 if config.log_level == 'debug' else 0}",
    ]
    command += [item.argument for item in restricted]
    return [*command, *config.extra_args]
