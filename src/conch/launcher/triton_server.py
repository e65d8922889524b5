"""Start one server, wait until it is ready, keep it serving, and stop it."""

import contextlib
import itertools
import math
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from conch.launcher import logs, warmth
from conch.launcher.admin import callers_restrictions, new_key, own_restrictions, without_keys
from conch.launcher.config import ServerConfig, server_command
from conch.launcher.endpoints import Endpoints, pick_free
from conch.launcher.healing import Backoff, frozen, stopped_since
from conch.launcher.keeper import LIST_S, LOOK_S, Keeper
from conch.launcher.loaded_models import settings_for
from conch.launcher.logs import LOGGER
from conch.launcher.preparation import Preparation, prepare
from conch.launcher.process import ServerProcess, Workspace
from conch.launcher.variants import with_aliases, with_chosen_weights, with_named_models
from conch.wire.entry_points import ALL_ENTRY_POINTS
from conch.wire.errors import ServerError
from conch.wire.hosts import host_port

PORT_ATTEMPTS = 5
"""Start attempts, each on other ports, before a lost port is an error."""
CRASH_ATTEMPTS = 2
"""Start attempts before a crash is an error; one crash under load may be a fluke."""
POLL_S = 0.05
END_OF_WATCH_S = 1.0
"""Seconds for a watch to end, unless it starts the server again."""
HEALTHY_S = 60.0
"""Seconds between two restarts after which the next failure is treated as the first."""


class _PortLostError(ServerError):
    """Another program took a free port before the server could listen on it."""


class _CrashError(ServerError):
    """A signal ended or stopped the server before it was ready."""


class TritonServer:
    """A `tritonserver` that is ready inside a `with` block and gone without trace after it.

    It ends with this program, however that ends (see guard.py).
    """

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self._preparation: Preparation | None = None
        self._process: ServerProcess | None = None
        self._endpoints: Endpoints | None = None
        callers = callers_restrictions(config.extra_args)
        self._own_restrictions = own_restrictions(callers)
        self._restricted = (*callers, *self._own_restrictions)
        self.component_key = "" if config.open_components else new_key()
        """Key that callers of the components must send; empty if any client may call them."""
        self._first_stubs: dict[int, str] = {}
        """Model by process id, when the server became ready."""
        self.heals: Counter[str] = Counter()
        """Times that `keep_serving` gave a model new processes, by the model's name."""
        self.restarts = 0

    def __enter__(self) -> "TritonServer":
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server and wait until all its models are ready; an error says why it cannot."""
        if self._process is not None:
            raise ServerError("this server was started before: make a new TritonServer")
        self._preparation = prepare(self.config, self.component_key)
        self.config = self._preparation.config
        for attempt in itertools.count(1):
            try:
                return self._start_on(self._preparation, self._free_endpoints())
            except _PortLostError as error:
                if attempt >= PORT_ATTEMPTS:
                    raise
                LOGGER.info("%s; trying other ports", error)
            except _CrashError as error:
                if attempt >= CRASH_ATTEMPTS:
                    raise
                LOGGER.warning("%s; trying once more", error)

    def stop(self) -> None:
        """Let requests in flight finish, stop the server and remove all it left behind."""
        self._end(self.config.stop_timeout_s)

    def kill(self) -> None:
        """Kill every process, from a signal handler too; call `stop` afterwards all the same."""
        if process := self._process:  # a thread that restarts the server may clear it meanwhile
            process.kill()

    def keep_serving(self, ended: threading.Event | None = None) -> None:
        """Watch the server: heal models whose processes die or freeze, and start it again.

        Start a server that cannot be healed, or that ends by itself, again on the same ports: at
        once, then after 1, 2, 4 … 30 s. After an exception, for example that of Ctrl-C, call `stop`
        on the same thread. `ended` ends this when it is set.
        """
        endpoints, backoff = self._listening(), Backoff(HEALTHY_S)
        ended = ended or threading.Event()
        while not ended.is_set():
            if reason := self._heal(endpoints, ended):
                LOGGER.error("tritonserver is started again: %s", reason)
                self._start_again(endpoints, backoff, ended)

    @contextlib.contextmanager
    def healing(self) -> Iterator[None]:
        """Run `keep_serving` on a separate thread until the block ends.

        Without it, requests of an entry point whose process has died wait without end.
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

    def log_tail(self) -> str:
        return logs.tail(self._running().log.lines(), 20)

    def models(self) -> tuple[str, ...]:
        return self._listening().ready_models()

    @property
    def on_demand(self) -> tuple[str, ...]:
        return self._preparation.on_demand if self._preparation else ()

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        return self._running().popen

    @property
    def pid(self) -> int:
        """Process id of `tritonserver`, also the id of its process group."""
        return self.process.pid

    @property
    def name(self) -> str:
        """The server's id, unique on this machine; names of its shared memory begin with it."""
        return self._running().workspace.name

    @property
    def http_url(self) -> str:
        """`address:port` to connect to, as tritonclient takes it."""
        return host_port(self._listening().reachable, self._listening().http_port)

    @property
    def grpc_url(self) -> str:
        return host_port(self._listening().reachable, self._listening().grpc_port)

    @property
    def metrics_url(self) -> str:
        endpoints = self._listening()
        return f"http://{host_port(endpoints.reachable, endpoints.metrics_port)}/metrics"

    def _free_endpoints(self) -> Endpoints:
        assert self._preparation is not None
        address = self._preparation.address
        free = iter(pick_free(address, 3))
        http, grpc, metrics = (port or next(free) for port in self.config.ports().values())
        return Endpoints(address, http, grpc, metrics, self._restricted)

    def _start_on(self, preparation: Preparation, endpoints: Endpoints) -> None:
        workspace = Workspace.new()
        try:
            directory = workspace.directory
            command = server_command(
                self._made(directory),
                preparation.installation,
                endpoints,
                workspace=workspace,
                restricted=self._own_restrictions,
            )
            LOGGER.debug("starting %s", " ".join(without_keys(command)))
            on_demand = settings_for(preparation.on_demand, endpoints).to_environment()
            process = self._process = ServerProcess(
                command,
                {**preparation.environment, **on_demand},
                workspace,
                least_level=self.config.level,
            )
            self._endpoints = endpoints
            self._wait_until_ready(process, endpoints)
            self._first_stubs = process.processes.stubs()
            if self.config.warm_up:
                warmth.warm_up(endpoints)
            if self.config.voices_from_recordings:
                warmth.wake_fitting(endpoints)
        except BaseException:
            try:
                # A server that is half up has no request to wait for.
                self._end(timeout_s=0)
            finally:
                workspace.remove()
            self._process = None
            raise

    def _made(self, directory: Path) -> ServerConfig:
        config = with_named_models(self.config, directory)
        return with_aliases(with_chosen_weights(config, directory), directory)

    def _wait_until_ready(self, process: ServerProcess, endpoints: Endpoints) -> None:
        timeout_s = self.config.startup_timeout_s
        deadline = time.monotonic() + timeout_s
        stopped: dict[int, float] = {}
        stubs, listed = dict[int, str](), -math.inf
        workspace, processes = process.workspace, process.processes
        while not endpoints.is_ready(workspace.name):
            workspace.close_to_others()
            now = time.monotonic()
            if now - listed >= LIST_S:
                stubs, listed = processes.stubs(), now
            looks = {**processes.look_at_server(), **processes.look_at(stubs)}
            stopped = stopped_since(stopped, looks, now)
            if frozen(stopped, now):
                raise _CrashError("a signal has stopped a process of the server while it started")
            if process.popen.poll() is not None:
                process.end(0)
                raise self._start_failure(process)
            if reason := logs.stub_failure(process.log.lines()):
                raise ServerError(reason)
            if time.monotonic() >= deadline:
                loading = logs.models_loading(process.log.lines())
                what = f"; still loading: {', '.join(loading)}" if loading else ""
                raise ServerError(f"the server was not ready within {timeout_s:g} s{what}")
            time.sleep(POLL_S)
        workspace.close_to_others()

    def _start_failure(self, process: ServerProcess) -> ServerError:
        lines = process.log.lines()
        reason = logs.explain_exit(lines, process.popen.returncode)
        if logs.lost_port_race(lines) and 0 in self.config.ports().values():
            return _PortLostError(reason)
        if process.popen.returncode < 0:
            return _CrashError(reason)
        return ServerError(reason)

    def _heal(self, endpoints: Endpoints, ended: threading.Event) -> str:
        """Heal models until only a new server helps; return why, nothing if `ended` is set."""
        process = self._running()
        keeper = Keeper(
            process.processes,
            endpoints,
            entry_points=(*ALL_ENTRY_POINTS, *self.config.also_as),
            load_timeout_s=self.config.startup_timeout_s,
            heals=self.heals,
            first=self._first_stubs,
        )
        blind = False
        try:
            while process.popen.poll() is None:
                if ended.wait(LOOK_S):
                    return ""
                try:
                    keeper.look()
                    process.workspace.close_to_others()  # a healed model has new segments
                    blind = False
                except OSError as error:
                    # Connections to the gateway may hold all file descriptors of this program.
                    if not blind:
                        LOGGER.error("the models' processes cannot be watched: %s", error)
                    blind = True
        except ServerError as error:
            return str(error)
        finally:
            keeper.close()
        if ended.is_set():
            return ""
        how = logs.describe_exit(process.popen.poll())
        log = self.log_tail()
        return f"tritonserver ended by itself ({how}); the last lines of its log:\n{log}"

    def _start_again(self, endpoints: Endpoints, backoff: Backoff, ended: threading.Event) -> None:
        assert self._preparation is not None
        began = time.monotonic()
        # Clients that wait for an answer learn at once that there will be none.
        with contextlib.suppress(OSError):
            self.kill()
        while not ended.wait(backoff.wait_s(time.monotonic())):
            backoff.attempt(time.monotonic())
            try:
                self._end(timeout_s=0)
                self._process = None
                self._start_on(self._preparation, endpoints)
            except (ServerError, OSError) as error:
                if not ended.is_set():
                    LOGGER.error("tritonserver could not be started again: %s", error)
            else:
                self.restarts += 1
                LOGGER.warning("tritonserver serves again after %.1f s", time.monotonic() - began)
                return

    def _end(self, timeout_s: float) -> None:
        try:
            if self._process is not None:
                self._process.end(timeout_s)
        finally:
            self._endpoints = None

    def _running(self) -> ServerProcess:
        if self._process is None:
            raise ServerError("the server is not running")
        return self._process

    def _listening(self) -> Endpoints:
        if self._endpoints is None:
            raise ServerError("the server is not running")
        return self._endpoints
