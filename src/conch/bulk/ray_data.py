"""Ray Data's pipeline of a bulk run: cutters, workers, and a server for each node."""

import logging
import os
import pickle
import re
import signal
import socket
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from conch.bulk.shards import Shard
from conch.bulk.work import Job, ShardOutcome, WorkUnit
from conch.bulk.worker import NodeServer, Transcriber, cut_units
from conch.wire.errors import BulkError
from conch.wire.hosts import host_port, is_loopback
from conch.wire.needs import components_of
from conch.wire.options import RecognitionOptions

BLOCK_BYTES = 32 << 20
"""Size of Ray Data's blocks: one piece of a long recording."""
STORE_BYTES = 1 << 30
CALLS_AT_ONCE = 3
"""Units that a worker handles at once, so that its server is busy while one of them ends."""
WORKER_CPUS, CUTTER_CPUS = 0.1, 0.5
"""CPUs that Ray counts: a worker waits for its server, and a cutter decodes."""
MAX_BLOCKS = 4096
CONNECT_S = 10.0
STOP_S = 15.0
_RAISED = re.compile(r"^(?:conch\.wire\.errors\.)?BulkError: (.*)$", re.MULTILINE)
"""The last line of a traceback."""
LOCALHOST = ("localhost", "127.0.0.1", "::1")


@contextmanager
def connected(address: str | None) -> Iterator[list[str]]:
    """Connect to a Ray cluster, or start Ray here; yield the ids of the nodes that may work."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Its core writes warnings of its libraries to stderr.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray

    given = address or os.environ.get("RAY_ADDRESS")
    own = {"address": "local", "object_store_memory": STORE_BYTES, "include_dashboard": False}
    settings: dict[str, Any] = {"address": given} if given else own
    host, _, port = given.rpartition(":") if given else ("127.0.0.2", "", "")
    host = host.strip("[]")
    if host and port.isdigit() and "/" not in host:
        check_answers(host, int(port))
    if is_loopback(host) and host not in LOCALHOST:
        # For localhost, Ray finds this machine's address in the network by itself.
        settings["_node_ip_address"] = host
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        with _silent():
            ray.init(**settings, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise BulkError(f"--ray {given}: no Ray cluster answers: {error}") from None
    # Ray's own handler leaves Ray before the servers of the nodes have ended.
    signal.signal(signal.SIGTERM, on_sigterm)
    try:
        nodes = [
            str(node["NodeID"])
            for node in ray.nodes()
            if node["Alive"] and node["Resources"].get("CPU", 0) >= CUTTER_CPUS
        ]
        if not nodes:
            raise BulkError("the Ray cluster has no node with a CPU")
        yield nodes
    finally:
        ray.shutdown()


def check_answers(host: str, port: int) -> None:
    """Check that a program listens where a Ray cluster should; Ray would try for minutes."""
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except OSError as error:
        raise BulkError(f"--ray {host_port(host, port)}: no Ray cluster answers: {error}") from None


@contextmanager
def _silent() -> Iterator[None]:
    """Keep Ray's core from writing the level of its log to stderr."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def outcomes(
    shards: Sequence[Shard], job: Job, nodes: Sequence[str]
) -> Generator[ShardOutcome, None, None]:
    """Yield the outcomes of units as Ray Data finishes them; raise a worker's BulkError."""
    import ray
    from ray.data import ActorPoolStrategy, DataContext

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = BLOCK_BYTES
    models = ("speech", *components_of(RecognitionOptions.parse(job.options)))
    chosen = (part for name, model in job.weights.items() if model for part in (f"--{name}", model))
    address = NodeAddress(job.run, (*job.command, *chosen), models)
    servers = [] if job.urls else [address.actor(node) for node in nodes]
    units = [{"unit": pickle.dumps(WorkUnit(shard.name, shard.sources))} for shard in shards]
    try:
        with _explained():
            # A server that does not start ends the run here, not at each unit.
            ray.get([server.url.remote() for server in servers])
            results = (
                ray.data.from_items(units, override_num_blocks=min(len(units), MAX_BLOCKS))
                .flat_map(
                    cut_units,
                    fn_kwargs={"job": job},
                    num_cpus=CUTTER_CPUS,
                    # Each is a process, whose start costs a core two seconds.
                    concurrency=max(len(nodes), int(ray.cluster_resources()["CPU"]) // 2),
                )
                .map_batches(
                    Transcriber,
                    fn_constructor_args=(job, address),
                    batch_size=1,
                    num_cpus=WORKER_CPUS,
                    compute=ActorPoolStrategy(
                        size=len(nodes),
                        max_tasks_in_flight_per_actor=2 * CALLS_AT_ONCE,
                        max_concurrent_calls_per_actor=CALLS_AT_ONCE,
                        enable_true_multi_threading=True,
                    ),
                )
            )
            for row in results.iter_rows():
                yield pickle.loads(row["outcome"])
    finally:
        for server in servers:
            server.stop.remote()
        if servers:
            # Ray kills the rest when it ends; a server needs a moment to stop in order.
            ended = [server.is_running.remote() for server in servers]
            ray.wait(ended, num_returns=len(servers), timeout=STOP_S)


@contextmanager
def _explained() -> Iterator[None]:
    """Raise a worker's BulkError in place of Ray's wrapper of it."""
    from ray.exceptions import RayError

    try:
        yield
    except RayError as error:
        raise BulkError(message_of(error)) from None


def message_of(error: BaseException) -> str:
    """Return the message of a worker's error: of Ray's errors, that of the BulkError inside.

    Ray Data wraps what its functions raise, and pickling drops the causes, but not the traceback.
    """
    chain = [error]
    while (cause := getattr(chain[-1], "cause", None) or chain[-1].__cause__) is not None:
        if not isinstance(cause, BaseException) or cause in chain:
            break
        chain.append(cause)
    # Ray's wrapper derives from the class of what it wraps, and its message is the traceback.
    own = [str(item) for item in chain if type(item) is BulkError]
    own += [message for item in chain for message in _RAISED.findall(str(item))]
    return own[0] if own else f"Ray: {type(chain[-1]).__name__}: {chain[-1]}"


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """The address of the server on the node of the caller."""

    run: str
    command: tuple[str, ...]
    models: tuple[str, ...]

    def __call__(self) -> str:
        """Return the address as soon as the server is ready; it is started if there is none."""
        import ray

        with _explained():
            return str(ray.get(self.actor(ray.get_runtime_context().get_node_id()).url.remote()))

    def actor(self, node: str) -> Any:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return (
            ray.remote(NodeServer)
            .options(
                name=f"conch-bulk-server-{self.run}-{node}",
                get_if_exists=True,
                num_cpus=0,
                max_restarts=-1,
                max_task_retries=-1,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            )
            .remote(self.command, self.models)
        )
