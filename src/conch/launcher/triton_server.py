"""Start one server, wait until it is ready, and stop it."""

import contextlib
import itertools
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from types import TracebackType

from conch.launcher import diagnosis, probe, stubs, warmth
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
from conch.launcher.healing import frozen, stopped_since
from conch.launcher.installation import (
    Installation,
    check_numpy,
    find_installation,
    wheel_root,
)
from conch.launcher.keeper import Keeper
from conch.launcher.logs import LOGGER, LogLine, tail
from conch.launcher.ports import pick_free, require_free, resolve_host
from conch.launcher.process import ServerProcess, Workspace
from conch.launcher.repositories import (
    check_models,
    check_repository,
    model_names,
    models_with_config,
)
from conch.launcher.supervisor import Supervisor
from conch.launcher.tracing import trace_environment
from conch.launcher.weights import with_weights
from conch.launcher.whisper import with_whisper, with_whisper_found
from conch.processes import model_processes
from conch.wire.entry_points import ENTRY_POINTS, SERVED_VARIABLE
from conch.wire.errors import ServerError

PORT_ATTEMPTS = 5
"""Start attempts, each on other ports, before a lost port is an error."""
CRASH_ATTEMPTS = 2
"""Start attempts before a crash is an error; one crash under load may be a fluke."""
POLL_S = 0.05
"""Seconds between two looks at a server that is not ready yet."""
END_OF_WATCH_S = 1.0
"""Seconds for a watch to end, unless it starts the server again."""


class _PortLostError(ServerError):
    """Another program took a free port before the server could listen on it."""


class _CrashError(ServerError):
    """A signal ended or stopped the server before it was ready."""


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
        """Key that callers of the components must send; empty if any client may call them."""
        self._first_processes: dict[int, str] = {}
        """Model by process id, when the server became ready."""
        self._start_on: Callable[[Endpoints], None] | None = None
        """Tries to start the server on these ports, with what `start` has found."""
        self.heals: Counter[str] = Counter()
        """Times that `keep_serving` gave a model new processes, by the model's name."""
        self.restarts = 0
        """Times that `keep_serving` started the server again."""

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
            ConfigError: the Whisper is missing or incomplete.
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
        self.config = with_weights(with_whisper_found(config))
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
        if not config.callers_models:
            served = self.config.models or model_names(repositories)
            environment[SERVED_VARIABLE] = ",".join(served)
        if warning := shared_memory_shortage():
            LOGGER.warning("%s", warning)
        self._start_on = partial(self._try_start, installation, environment)
        for attempt in itertools.count(1):
            try:
                return self._start_on(self._choose_ports(address))
            except _PortLostError as error:
                if attempt >= PORT_ATTEMPTS:
                    raise
                LOGGER.info("%s; trying other ports", error)
            except _CrashError as error:
                if attempt >= CRASH_ATTEMPTS:
                    raise
                LOGGER.warning("%s; trying once more", error)

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
        # A thread that restarts the server may clear it meanwhile.
        process = self._process
        if process is not None:
            process.kill()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Return the exit status of the server once it has ended, None after `timeout_s`.

        Raises:
            ServerError: the server was not started.
        """
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def keep_serving(self, ended: threading.Event | None = None) -> None:
        """Watch the server: heal models whose processes die or freeze, and start it again.

        A server that cannot be healed, or that ends by itself, is started again on the same
        ports, as often as needed: at once, then after 1, 2, 4 … 30 s. After an exception, for
        example that of Ctrl-C, call `stop` on the same thread.

        Args:
            ended: ends this when it is set; without it only an exception does.

        Raises:
            ServerError: the server was not started.
        """
        Supervisor(self, self._listening()).run(ended or threading.Event())

    def start_again(self, endpoints: Endpoints) -> None:
        """Kill the server that was started, and start another one on these ports.

        Raises:
            ServerError: it cannot start.
        """
        assert self._start_on is not None
        self._end(timeout_s=0)
        self._process = None
        self._start_on(endpoints)

    def new_keeper(self, endpoints: Endpoints) -> Keeper:
        """Return a keeper of the models of the running server, on these ports.

        Raises:
            OSError: their processes cannot be listed.
        """
        return Keeper(
            self.pid,
            endpoints,
            self._restricted,
            entry_points=(*ENTRY_POINTS, *self.config.also_as),
            load_timeout_s=self.config.startup_timeout_s,
            heals=self.heals,
            processes=self._first_processes,
        )

    def close_to_others(self) -> None:
        """Take the rights of other users of this machine away from the shared memory."""
        assert self._workspace is not None
        self._workspace.close_to_others()

    @contextlib.contextmanager
    def healing(self) -> Iterator[None]:
        """Run `keep_serving` on a separate thread until the block ends.

        Without it Triton lets the requests of an entry point whose process has died wait for ever.

        Raises:
            ServerError: the server was not started.
        """
        self._listening()
        ended = threading.Event()
        thread = threading.Thread(
            target=self.keep_serving, args=(ended,), name="healing", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(END_OF_WATCH_S)
            while thread.is_alive():
                # It restarts the server, or waits for an answer; neither is needed any more.
                self.kill()
                thread.join(END_OF_WATCH_S)

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
            directory = self._workspace.directory
            command = server_command(
                with_aliases(with_whisper(self.config, directory), directory),
                installation,
                endpoints,
                name=self._workspace.name,
                segment_prefix=self._workspace.segment_prefix,
                directory=directory,
                restricted=self._own_restrictions,
            )
            LOGGER.debug("starting %s", " ".join(without_keys(command)))
            self._process = ServerProcess(
                command,
                environment,
                self._workspace,
                least_level=self.config.level,
                on_log=self._on_log,
            )
            self._endpoints = endpoints
            self._wait_until_ready(self._process, endpoints, self._workspace)
            self._first_processes = model_processes(self.pid)
            if self.config.warm_up:
                warmth.warm_up(endpoints, self._restricted, self.models())
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
        stopped: dict[int, float] = {}
        while not probe.is_ready(endpoints, workspace.name, self._restricted):
            workspace.close_to_others()
            now = time.monotonic()
            stopped = stopped_since(stopped, stubs.look_at_all(process.popen.pid), now)
            if frozen(stopped, now):
                raise _CrashError("a signal has stopped a process of the server while it started")
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
        if process.popen.returncode < 0:
            return _CrashError(reason)
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
