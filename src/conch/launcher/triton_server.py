"""Start one server, wait until it is ready, and stop it."""

import subprocess
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import TracebackType

from conch.launcher import diagnosis, probe, stubs
from conch.launcher.admin import (
    callers_restrictions,
    new_key,
    own_restrictions,
    with_component_key,
    without_keys,
)
from conch.launcher.aliases import check_aliases, with_aliases
from conch.launcher.command import Endpoints, server_command
from conch.launcher.config import ServerConfig
from conch.launcher.environment import server_environment, shared_memory_shortage
from conch.launcher.installation import (
    Installation,
    check_numpy,
    find_installation,
    wheel_root,
)
from conch.launcher.logs import LOGGER, LogLine, tail
from conch.launcher.ports import pick_free, require_free, resolve_host
from conch.launcher.process import ServerProcess, Workspace
from conch.launcher.repositories import check_models, check_repository, models_with_config
from conch.launcher.tracing import trace_environment
from conch.launcher.weights import with_weights
from conch.wire.errors import ServerError

START_ATTEMPTS = 5
"""Starts, each on other ports, before a lost port is an error."""
POLL_S = 0.05
"""Seconds between two looks at a server that is not ready yet."""
LIVENESS_POLL_S = 1.0
"""Seconds between two looks at the models' processes."""


class _PortLostError(ServerError):
    """Another program took a free port before the server could listen on it."""


class TritonServer:
    """A `tritonserver` that is ready inside a `with` block and gone without trace after it.

    It ends with this program, however that ends (see guard.py).
    """

    def __init__(
        self, config: ServerConfig, on_log: Callable[[LogLine], None] | None = None
    ) -> None:
        """Prepare a server; nothing runs before `start`.

        Args:
            config: its settings.
            on_log: called on a separate thread with every line of the server's log from
                `config.log_level` up. The logger "conch.launcher" gets the same lines.

        Raises:
            ServerError: `config.extra_args` restrict an API in a way that Triton refuses.
        """
        self.config = config
        self._on_log = on_log
        self._process: ServerProcess | None = None
        self._workspace: Workspace | None = None
        self._endpoints: Endpoints | None = None
        callers = callers_restrictions(config.extra_args)
        self._own_restrictions = own_restrictions(callers)
        self._restricted = (*callers, *self._own_restrictions)
        self.component_key = "" if config.open_components else new_key()
        """What the components' callers have to send; empty where everybody may call them."""
        self._model_processes: dict[int, str] = {}
        """Model by process id, as the server became ready."""

    def __enter__(self) -> "TritonServer":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server and wait until all its models are ready.

        Raises:
            ServerError: the server cannot start; the message says why.
        """
        if self._process is not None:
            raise ServerError("this server was started before: make a new TritonServer")
        config = self.config
        address = resolve_host(config.host)
        for option, port in config.ports().items():
            if port:
                require_free(address, port, option)
        repositories = [Path(path) for path in config.model_repositories]
        for repository in repositories:
            check_repository(repository)
        check_models(repositories, config.models)
        check_aliases(repositories, config.also_as)
        self.config = with_weights(config)
        if name := config.model_config:
            models = ", ".join(models_with_config(repositories, name))
            LOGGER.info("config %s: %s; the other models run their config.pbtxt", name, models)
        installation = find_installation(config.tritonserver, wheel=wheel_root())
        backend = installation.python_backend
        if backend:
            check_numpy(metadata.version("numpy"))
        environment = with_component_key(
            server_environment(backend.stub if backend else None), self.component_key
        )
        environment = trace_environment(config.extra_args, environment)
        if warning := shared_memory_shortage():
            LOGGER.warning("%s", warning)
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                return self._try_start(installation, environment, self._choose_ports(address))
            except _PortLostError as error:
                if attempt == START_ATTEMPTS:
                    raise
                LOGGER.info("%s; trying other ports", error)

    def stop(self) -> None:
        """Let requests in flight finish, stop the server and remove all it left behind.

        Do nothing if no server runs. Ctrl-C kills the server at once.

        Raises:
            ServerError: a process survives.
        """
        self._end(self.config.stop_timeout_s)

    def kill(self) -> None:
        """Kill every process of the server; call `stop` afterwards all the same.

        A signal handler may call this, also while `stop` waits.
        """
        if self._process is not None:
            self._process.kill()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Return the exit status of the server once it has ended, None after `timeout_s`.

        Raises:
            ServerError: the server was not started.
        """
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def wait_for_failure(self) -> str:
        """Wait until the server, or a model's process, dies by itself; return the error message.

        Triton goes on without a model whose process died, and still calls itself ready. Requests
        that need the model fail until the server is restarted.

        Raises:
            ServerError: the server was not started.
        """
        while self.wait(LIVENESS_POLL_S) is None:
            if dead := stubs.dead_models(self._model_processes):
                names = ", ".join(dead)
                return f"the process of model {names} died, and Triton does not restart it"
        how = diagnosis.describe_exit(self.process.poll())
        return (
            f"tritonserver ended by itself ({how}); the last lines of its log:\n{self.log_tail()}"
        )

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines of the server's log, of every level, for error messages."""
        return tail(self._running().log.lines(), lines)

    def models(self) -> tuple[str, ...]:
        """Return the sorted names of the models that serve requests."""
        return probe.ready_models(self._listening(), self._restricted)

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The server's process.

        Raises:
            ServerError: the server was not started.
        """
        return self._running().popen

    @property
    def pid(self) -> int:
        """Process id of `tritonserver`, also the id of its process group."""
        return self.process.pid

    @property
    def name(self) -> str:
        """The server's id, unique on this machine; names of its shared memory begin with it."""
        if self._workspace is None:
            raise ServerError("the server is not running")
        return self._workspace.name

    @property
    def http_url(self) -> str:
        """`address:port` to connect to, as tritonclient takes it."""
        return f"{self._listening().reachable}:{self._listening().http_port}"

    @property
    def grpc_url(self) -> str:
        """`address:port` to connect to, as tritonclient takes it."""
        return f"{self._listening().reachable}:{self._listening().grpc_port}"

    @property
    def metrics_url(self) -> str:
        """Full URL of the Prometheus metrics."""
        return f"http://{self._listening().reachable}:{self._listening().metrics_port}/metrics"

    def _choose_ports(self, address: str) -> Endpoints:
        free = iter(pick_free(address, 3))
        http, grpc, metrics = (port or next(free) for port in self.config.ports().values())
        return Endpoints(address, http, grpc, metrics)

    def _try_start(
        self, installation: Installation, environment: dict[str, str], endpoints: Endpoints
    ) -> None:
        try:
            self._workspace = Workspace()
            command = server_command(
                with_aliases(self.config, self._workspace.directory),
                installation,
                endpoints,
                name=self._workspace.name,
                segment_prefix=self._workspace.segment_prefix,
                directory=self._workspace.directory,
                restricted=self._own_restrictions,
            )
            LOGGER.debug("starting %s", " ".join(without_keys(command)))
            self._process = ServerProcess(
                command,
                environment,
                self._workspace,
                grace_s=self.config.stop_timeout_s,
                least_level=self.config.level,
                on_log=self._on_log,
            )
            self._endpoints = endpoints
            self._wait_until_ready(self._process, endpoints, self._workspace)
            self._model_processes = stubs.model_processes(self.pid)
        except BaseException:
            # A server that is half up has no request to wait for.
            self._end(timeout_s=0)
            self._process = None
            raise

    def _wait_until_ready(
        self, process: ServerProcess, endpoints: Endpoints, workspace: Workspace
    ) -> None:
        timeout_s = self.config.startup_timeout_s
        deadline = time.monotonic() + timeout_s
        while not probe.is_ready(endpoints, workspace.name, self._restricted):
            workspace.close_to_others()
            if process.popen.poll() is not None:
                process.end(0)
                raise self._start_failure(process)
            if reason := diagnosis.stub_failure(process.log.lines()):
                raise ServerError(reason)
            if time.monotonic() >= deadline:
                loading = diagnosis.models_loading(process.log.lines())
                what = f"; still loading: {', '.join(loading)}" if loading else ""
                raise ServerError(f"the server was not ready within {timeout_s:g} s{what}")
            time.sleep(POLL_S)
        workspace.close_to_others()

    def _start_failure(self, process: ServerProcess) -> ServerError:
        lines = process.log.lines()
        reason = diagnosis.explain_exit(lines, process.popen.returncode)
        if diagnosis.lost_port_race(lines) and 0 in self.config.ports().values():
            return _PortLostError(reason)
        return ServerError(reason)

    def _end(self, timeout_s: float) -> None:
        try:
            if self._process is not None:
                self._process.end(timeout_s)
        finally:
            self._endpoints = None
            if self._workspace is not None:
                self._workspace.remove()

    def _running(self) -> ServerProcess:
        if self._process is None:
            raise ServerError("the server is not running")
        return self._process

    def _listening(self) -> Endpoints:
        if self._endpoints is None:
            raise ServerError("the server is not running")
        return self._endpoints
