"""The life of one server: choose ports, start, wait until ready, stop."""

import subprocess
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import TracebackType

from conch.launcher import diagnosis, probe, stubs
from conch.launcher.admin import callers_restrictions, own_restrictions, without_keys
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
from conch.wire.errors import ServerError

START_ATTEMPTS = 5
POLL_S = 0.05
LIVENESS_POLL_S = 1.0


class _PortLostError(ServerError):
    """A free port was taken by another program before the server could listen on it."""


class TritonServer:
    """A `tritonserver` that is ready inside a `with` block and gone without trace after it.

    `on_log` gets every line of the server's log from `config.log_level` up, on a thread of its
    own; the same lines go to the logger "conch.launcher". ServerError says why a server does not
    start. Dies with this program, however that ends (see guard.py).
    """

    def __init__(
        self, config: ServerConfig, on_log: Callable[[LogLine], None] | None = None
    ) -> None:
        self.config = config
        self._on_log = on_log
        self._process: ServerProcess | None = None
        self._workspace: Workspace | None = None
        self._endpoints: Endpoints | None = None
        callers = callers_restrictions(config.extra_args)
        self._own_restrictions = own_restrictions(callers)
        self._restricted = (*callers, *self._own_restrictions)
        self._model_processes: dict[int, str] = {}
        """As they were when the server became ready."""

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
        """Returns when the server and all its models are ready. Raises ServerError."""
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
        if name := config.model_config:
            models = ", ".join(models_with_config(repositories, name))
            LOGGER.info("config %s: %s; the other models run their config.pbtxt", name, models)
        installation = find_installation(config.tritonserver, wheel=wheel_root())
        backend = installation.python_backend
        if backend:
            check_numpy(metadata.version("numpy"))
        environment = server_environment(backend.stub if backend else None)
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
        """Lets requests in flight finish, stops the server and removes all it left behind.

        Harmless when nothing runs. Interrupted by Ctrl-C, it kills the server at once.
        """
        self._end(self.config.stop_timeout_s)

    def kill(self) -> None:
        """Ends every process of the server at once; `stop` is still to be called after it.

        May be called from a signal handler, also while `stop` waits.
        """
        if self._process is not None:
            self._process.kill()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Exit status of the server once it has ended, None if the time is up first."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def wait_for_failure(self) -> str:
        """Blocks until the server, or the process of a model, dies by itself; returns what to say.

        Triton goes on without a model whose process died, and answers every request that needs it
        with an error, but calls itself ready: only a new start mends that.
        """
        while self.wait(LIVENESS_POLL_S) is None:
            if dead := stubs.dead_models(self._model_processes):
                names = ", ".join(dead)
                return f"the process of model {names} died, and Triton does not start it anew"
        how = diagnosis.describe_exit(self.process.poll())
        return (
            f"tritonserver ended by itself ({how}); the last lines of its log:\n{self.log_tail()}"
        )

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the server's log, at every level, for error messages."""
        return tail(self._running().log.lines(), lines)

    def models(self) -> tuple[str, ...]:
        """Names of the models that serve requests, sorted."""
        return probe.ready_models(self._listening(), self._restricted)

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The server's process; ServerError before the start."""
        return self._running().popen

    @property
    def pid(self) -> int:
        """Process id of `tritonserver`, also the id of its process group."""
        return self.process.pid

    @property
    def name(self) -> str:
        """Unique on this machine: the server's id, and the prefix of its shared memory."""
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
                self.config,
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
            self._wait_until_ready(self._process, endpoints, self._workspace.name)
            self._model_processes = stubs.model_processes(self.pid)
        except BaseException:
            # A server that is half up has no request to wait for.
            self._end(timeout_s=0)
            self._process = None
            raise

    def _wait_until_ready(self, process: ServerProcess, endpoints: Endpoints, name: str) -> None:
        timeout_s = self.config.startup_timeout_s
        deadline = time.monotonic() + timeout_s
        while not probe.is_ready(endpoints, name, self._restricted):
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
