"""The command line of `tritonserver`."""

import math
from collections.abc import Iterable, Sequence

from conch.launcher.admin import Restriction
from conch.launcher.config import ServerConfig
from conch.launcher.endpoints import Endpoints
from conch.launcher.installation import Installation
from conch.launcher.process import Workspace

BLS_THREADS = 64
"""Threads of the python backend in each instance of a model.

They carry the calls of a model in flight (`max_calls_in_flight` of `speech`) and send its answers,
so they must outnumber the calls. Each waiting thread makes it slower to wake another one
(docs/notes/performance.md).
"""
EXIT_MARGIN_S = 2.0
"""Seconds that the launcher waits for the server beyond the server's own wait for requests."""


def server_command(
    config: ServerConfig,
    installation: Installation,
    endpoints: Endpoints,
    *,
    workspace: Workspace,
    restricted: Iterable[Restriction],
) -> Sequence[str]:
    """Return the arguments of one start, which closes the `restricted` APIs.

    The backend directory of the wheel is built in the workspace.
    """
    command = [str(installation.tritonserver), f"--id={workspace.name}"]
    backends = installation.backend_directory
    if installation.python_backend is not None:
        backends = installation.python_backend.link_into(workspace.directory)
    if backends is not None:
        command.append(f"--backend-directory={backends}")
    command += [f"--model-repository={path}" for path in config.model_repositories]
    if config.model_config:
        command.append(f"--model-config-name={config.model_config}")
    if not config.callers_models:
        # Only in this mode can a model whose process died be loaded again: see healing.py.
        command.append("--model-control-mode=explicit")
        command += [f"--load-model={model}" for model in config.models or ("*",)]
    for service in ("http", "grpc", "metrics"):
        command.append(f"--{service}-address={_address(service, endpoints.address)}")
        command.append(f"--{service}-port={getattr(endpoints, f'{service}_port')}")
    command += [
        "--disable-auto-complete-config",
        "--exit-on-error=true",
        # A model that is loaded on demand, or that cannot be, leaves the server ready.
        f"--strict-readiness={str(not config.on_demand).lower()}",
        f"--exit-timeout-secs={max(1, math.floor(config.stop_timeout_s - EXIT_MARGIN_S))}",
        f"--backend-config=python,shm-region-prefix-name={workspace.segment_prefix}",
        f"--backend-config=python,thread-pool-size={BLS_THREADS}",
        # These lines explain a failed start; the launcher decides which ones it forwards.
        "--log-info=true",
        "--log-warning=true",
        "--log-error=true",
        f"--log-verbose={1 if config.log_level == 'debug' else 0}",
    ]
    command += [item.argument for item in restricted]
    return [*command, *config.extra_args]


def _address(service: str, address: str) -> str:
    """Return an address as a service of Triton reads it."""
    if ":" not in address:
        return address
    # gRPC puts the port behind it; the library of the other two looks for the prefix.
    return f"[{address}]" if service == "grpc" else f"ipv6:{address}"
