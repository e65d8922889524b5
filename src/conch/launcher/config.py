"""The settings of a server, and the command line that they make."""

import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from conch.launcher.admin import Restriction, callers_restrictions
from conch.launcher.endpoints import Endpoints
from conch.launcher.installation import Installation
from conch.launcher.process import Workspace
from conch.launcher.repositories import shipped_repositories
from conch.wire.errors import ServerError

LogLevel = Literal["debug", "info", "warning", "error"]

OWN_OPTIONS = {
    *("--allow-grpc", "--allow-http", "--allow-metrics", "--backend-directory"),
    *("--grpc-address", "--grpc-port", "--http-address", "--http-port", "--id", "--log-file"),
    *("--log-format", "--metrics-address", "--metrics-port", "--model-config-name"),
    *("--model-repository", "--model-store"),
}
"""Options that the launcher sets itself; a second value would contradict what it reports."""
MODEL_OPTIONS = {"--load-model", "--model-control-mode"}
"""Options that the launcher sets where `ServerConfig.models` names models."""
MODEL_NAME = re.compile(r"(?!__)[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
"""Model names that work as a folder and in a URL, and are neither hidden nor private."""
BLS_THREADS = 64
"""Threads of the python backend in each instance of a model.

They carry the calls of a model in flight (`max_calls_in_flight` of `speech`) and send its answers,
so they must outnumber the calls. Each waiting thread makes it slower to wake another one
(docs/notes/performance.md).
"""
EXIT_MARGIN_S = 2.0
"""Seconds that the launcher waits for the server beyond the server's own wait for requests."""


@dataclass(frozen=True)
class ServerConfig:
    model_repositories: Iterable[str | Path] = field(default_factory=shipped_repositories)
    """Folders of models; a model's name must be unique across all of them."""
    model_config: str = ""
    """NAME of the `configs/NAME.pbtxt` that replaces config.pbtxt in each model that has one."""
    models: Iterable[str] = ()
    """Names of the only models to serve; empty for all."""
    on_demand: bool = False
    """Whether components that neither recordings nor live audio need without options are loaded
    when a request first needs them, not at the start."""
    also_as: Iterable[str] = ()
    """Further names under which `speech` is served, each as a model of its own. They are loaded
    whatever `models` names; a caller who loads models by `extra_args` names them there too."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """Models by kind (`whisper`, `moonshine`, `piper`, `transducer`, `paraformer`, `sensevoice`,
    `paraformer_online`, `kaldi`, `wenet`, `ctc`), in place of those in the components' configs.
    Each is a name that `conch models` lists, or a folder."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Further models by the names that the option `model` takes: each a name that `conch models`
    lists, or a folder of any kind. They are loaded at the start, whatever `models` names."""
    open_components: bool = False
    """Whether any client of the ports may call the components, not only `speech`: for tests and
    benchmarks of components."""
    voices_from_recordings: bool = False
    """Whether voices may be fitted to recordings, and requests for speech may have the option
    `reference`. Set it only with the consent of the people who are heard."""
    voice_consent: str = ""
    """Sentence that a person must speak before a voice is fitted; empty for none."""
    host: str = "127.0.0.1"
    """Address or name that the three ports listen on; 0.0.0.0 for every interface."""
    http_port: int = 0
    grpc_port: int = 0
    metrics_port: int = 0
    """Port of the Prometheus metrics; 0 takes any free port, as of the services before."""
    tritonserver: str | Path | None = None
    """Path of the server's binary; None searches PATH, then the nvidia-pytriton wheel."""
    startup_timeout_s: float = 120.0
    warm_up: bool = False
    """Whether the server counts as ready only after each component of `speech` has answered."""
    stop_timeout_s: float = 30.0
    """Seconds for requests and models to finish after a stop; then everything is killed. A
    server that computes nothing any more is killed earlier."""
    log_level: LogLevel = "info"
    """Least severe level of the server's log that is forwarded."""
    extra_args: Iterable[str] = ()
    """Passed to `tritonserver` unchanged, after the launcher's own arguments."""

    def __post_init__(self) -> None:
        """Check the values; raise a ServerError for one that cannot work."""
        repositories = tuple(Path(path) for path in self.model_repositories)
        object.__setattr__(self, "model_repositories", repositories)
        object.__setattr__(self, "extra_args", tuple(self.extra_args))
        object.__setattr__(self, "models", tuple(dict.fromkeys(self.models)))
        object.__setattr__(self, "also_as", tuple(dict.fromkeys(self.also_as)))
        if not repositories:
            raise ServerError("at least one model repository is needed")
        if self.log_level not in get_args(LogLevel):
            raise ServerError(f"log level must be one of {get_args(LogLevel)}: {self.log_level!r}")
        for name in ("startup_timeout_s", "stop_timeout_s"):
            if not getattr(self, name) > 0:
                raise ServerError(f"{name} must be above 0 seconds: {getattr(self, name)!r}")
        taken: dict[int, str] = {}
        for option, port in self.ports().items():
            if not 0 <= port <= 65535:
                raise ServerError(f"{option} must be from 0 (any free port) to 65535: {port}")
            if port and port in taken:
                raise ServerError(f"{taken[port]} and {option} are both {port}")
            taken[port] = option
        for name in self.also_as:
            if not MODEL_NAME.fullmatch(name):
                raise ServerError(
                    "--also-as takes names of 1 to 128 letters, digits, '_', '.' and '-', which do "
                    f"not begin with '.', '-' or '__'; sent: {name!r}"
                )
        for argument in self.extra_args:
            option = argument.partition("=")[0]
            if option in OWN_OPTIONS or (self.models and option in MODEL_OPTIONS):
                raise ServerError(f"{option} is set by Conch itself and cannot be passed through")
        callers_restrictions(self.extra_args)

    def ports(self) -> dict[str, int]:
        """Return the port of each command-line option, 0 for any free one."""
        return {
            "--http-port": self.http_port,
            "--grpc-port": self.grpc_port,
            "--metrics-port": self.metrics_port,
        }

    @property
    def callers_models(self) -> bool:
        """Whether `extra_args` choose the models to load."""
        options = {argument.partition("=")[0] for argument in self.extra_args}
        return bool(options & MODEL_OPTIONS)

    @property
    def level(self) -> int:
        return int(logging.getLevelName(self.log_level.upper()))


def server_command(
    config: ServerConfig,
    installation: Installation,
    endpoints: Endpoints,
    *,
    workspace: Workspace,
    restricted: Iterable[Restriction],
) -> Sequence[str]:
    """Return the arguments of a start that closes `restricted` APIs; link the wheel's backends."""
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
    if ":" not in address:
        return address
    # gRPC puts the port behind it; the library of the other two looks for the prefix.
    return f"[{address}]" if service == "grpc" else f"ipv6:{address}"
