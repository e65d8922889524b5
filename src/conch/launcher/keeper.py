"""Watch the models' processes of one running server, and give new ones to models that need them."""

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from conch.launcher.endpoints import Endpoints
from conch.launcher.healing import Backoff, frozen, sick_models, stopped_since
from conch.launcher.logs import LOGGER
from conch.launcher.process import ServerProcesses
from conch.wire.errors import ServerError

LOOK_S = 0.1
UNLOAD_TIMEOUT_S = 5.0
"""Seconds for Triton to unload a model; it does not wait for the model's requests."""
LIST_S = 1.0
"""Seconds between two lists of the processes: models are loaded on demand too, in no less time."""
HEALTHY_S = 10.0
"""Seconds of service after which a model that dies again is healed at once."""
MOST_FAILURES = 3
"""Attempts to load a model again before the whole server is started again."""


class Keeper:
    """The models of one running `tritonserver`, healed in parallel.

    Triton reports a model as ready after its process died, so `load` needs an `unload` first.
    """

    def __init__(
        self,
        processes: ServerProcesses,
        endpoints: Endpoints,
        entry_points: Collection[str],
        load_timeout_s: float,
        heals: "Counter[str]",
        first: Mapping[int, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with the models' processes when the server became ready, by id: `first`.

        One of them may have died since. Triton lets requests of `entry_points` wait without end
        when the process has died.
        """
        self._server, self._endpoints, self._clock = processes, endpoints, clock
        self._entry_points, self._load_timeout_s = entry_points, load_timeout_s
        self._heals = heals
        self._pool = ThreadPoolExecutor(thread_name_prefix="heal")
        self._closed = threading.Event()
        self._healing: dict[str, Future[set[int] | None]] = {}
        self._unhealed: dict[str, str] = {}
        """Faults of the models that could not be loaded again, by model."""
        self._failures: Counter[str] = Counter()
        self._backoffs: defaultdict[str, Backoff] = defaultdict(lambda: Backoff(HEALTHY_S))
        self._stopped: dict[int, float] = {}
        self._replaced: set[int] = set()
        """Earlier processes of healed models: Triton ends them after the new ones have started."""
        self._processes = dict(first)
        self._listed = -math.inf
        self._instances = Counter(self._processes.values())

    def look(self) -> None:
        """Look once, and begin to heal models; raise a ServerError if only a new server helps."""
        now = self._clock()
        ended = {model: heal.result() for model, heal in self._healing.items() if heal.done()}
        loaded = {model: before for model, before in ended.items() if before is not None}
        self._replaced = self._replaced.union(*loaded.values())
        if ended or now - self._listed >= LIST_S:
            self._list(ended)
        for model in ended:
            del self._healing[model]
        for model in loaded:
            self._count_instances(model)
        looks = self._server.look_at(self._processes)
        server = self._server.look_at_server()
        self._stopped = stopped_since(self._stopped, {**looks, **server}, now)
        frozen_ones = frozen(self._stopped, now)
        if frozen_ones & server.keys():
            raise ServerError("tritonserver is frozen")
        for process in frozen_ones:
            # Triton would wait for its answers, and abort some seconds later.
            self._server.kill(process)
        current = {item: look for item, look in looks.items() if item not in self._replaced}
        for model, what in {**self._unhealed, **sick_models(current, frozen_ones)}.items():
            if self._failures[model] >= MOST_FAILURES:
                raise ServerError(f"model {model} {what} and cannot be loaded again")
            if model not in self._healing and not self._backoffs[model].wait_s(now):
                self._backoffs[model].attempt(now)
                self._healing[model] = self._pool.submit(self._heal, model, what)

    def close(self) -> None:
        """Start no more heals; running ones end once the server has gone."""
        self._closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _list(self, healed: Collection[str]) -> None:
        """List the living processes; keep the dead ones of models that are not healed."""
        running = self._server.stubs()
        dead = {
            process: model
            for process, model in self._processes.items()
            if process not in running and process not in self._replaced and model not in healed
        }
        self._processes = {**dead, **running}
        self._replaced &= set(running)
        self._listed = self._clock()

    def _count_instances(self, model: str) -> None:
        """Load a model once more if it has fewer processes than before it was loaded."""
        living = sum(
            name == model and process not in self._replaced
            for process, name in self._processes.items()
        )
        if living < self._instances[model]:
            # A process that died before it was listed has no name any more.
            self._unhealed[model] = "has died"
        # Its configuration may ask for fewer by now; then another load changes nothing.
        self._instances[model] = max(1, living)

    def _heal(self, model: str, what: str) -> set[int] | None:
        """Load a model again; return its earlier processes, None if it was not loaded."""
        began = self._clock()
        ready = self._endpoints.ready_models()
        if model not in self._unhealed and ready and model not in ready:
            return None  # a client with the key has unloaded it
        LOGGER.warning("model %s %s and is loaded again", model, what)
        try:
            before = self._reload(model)
        except (ServerError, OSError) as error:
            LOGGER.error("model %s cannot be loaded again: %s", model, error)
            self._failures[model] += 1
            self._unhealed[model] = what
            return None
        self._failures.pop(model, None)
        self._unhealed.pop(model, None)
        self._heals[model] += 1
        LOGGER.warning("model %s serves again after %.1f s", model, self._clock() - began)
        return before

    def _reload(self, model: str) -> set[int]:
        at = self._endpoints
        before = {process for process, name in self._server.stubs().items() if name == model}
        deadline = self._clock() + self._load_timeout_s
        if not at.administer(model, "unload", UNLOAD_TIMEOUT_S):
            raise ServerError(f"unload: no answer within {UNLOAD_TIMEOUT_S:g} s")
        if model in self._entry_points:
            # Only now, or a request could still be handed to the dead process.
            try:
                self._server.cut_connections((at.http_port, at.grpc_port))
            except OSError as error:
                self._failures[model] = MOST_FAILURES
                raise ServerError(
                    f"requests in flight would never end, and their connections cannot be cut: "
                    f"{error}"
                ) from error
        if at.administer(model, "load", self._load_timeout_s):
            return before
        # An entry point that was healed meanwhile has cut this connection too.
        while model not in at.ready_models():
            if self._closed.wait(LOOK_S) or self._clock() >= deadline:
                raise ServerError(f"load: it was not ready within {self._load_timeout_s:g} s")
        return before
