"""The driver of a bulk run: what is left to do, Ray Data's pipeline, and the summary."""

import json
import logging
import os
import re
import signal
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

from conch import __version__
from conch.bulk.inputs import Source, sources_of
from conch.bulk.lock import Lock
from conch.bulk.node_server import NodeServer
from conch.bulk.output import DONE, FILES, RUN, WORK, Output
from conch.bulk.plan import SHARD, Shard, not_planned, shards_of, without_done
from conch.bulk.rows import SCHEMA
from conch.bulk.shards import ids_of
from conch.bulk.watch import ServerEvents, ServerWatch
from conch.bulk.work import Job, Outcome, Unit, outcome_there
from conch.bulk.worker import Transcriber, cut_units
from conch.client.address import is_loopback
from conch.wire.errors import BulkError
from conch.wire.needs import components_of
from conch.wire.options import RecognitionOptions

BLOCK_BYTES = 32 << 20
"""Size of Ray Data's blocks: one piece of a long recording."""
STORE_BYTES = 1 << 30
"""Ray's object store, where this command starts Ray itself."""
CALLS_AT_ONCE = 3
"""Units that a worker has under way, so that its server is busy while one of them ends."""
WORKER_CPUS, CUTTER_CPUS = 0.1, 0.5
"""CPUs that Ray counts: a worker waits for its server, and a cutter decodes."""
MAX_BLOCKS = 4096
CONNECT_S = 10.0
"""Seconds for a Ray cluster to accept a connection."""
STOP_S = 15.0
"""Seconds for the servers of the nodes to end."""
READS_AT_ONCE = 16
SERVER_NAME = "conch-bulk-server"
_RAISED = re.compile(r"^(?:conch\.wire\.errors\.)?BulkError: (.*)$", re.MULTILINE)
"""The last line of a traceback."""
LOCALHOST = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Bulk:
    """A bulk run as it was asked for."""

    inputs: tuple[str, ...]
    job: Job
    overwrite: bool = False
    ray_address: str | None = None
    files_per_shard: int | None = None
    events: "Events | None" = None


class Events(ServerEvents, Protocol):
    """What is told while a run goes on."""

    def begun(self, files: int, before: Sequence[Outcome]) -> None:
        """Tell how many files there are, and what was done before."""
        ...

    def done(self, outcome: Outcome) -> None:
        """Tell of a shard that was written."""
        ...


def run(bulk: Bulk) -> list[Outcome]:
    """Transcribe what is not transcribed yet; return the outcomes of all shards.

    Raises:
        BulkError: an input or the output cannot be used, or no server can be had. What was done
            until then is kept, and the same call goes on.
        BenchError: a manifest has a broken row.
    """
    sources = sources_of(bulk.inputs)
    output = Output(bulk.job.out)
    output.make()
    with Lock(output) as lock:
        job = replace(bulk.job, run=lock.run)
        output.remove_leftovers()
        _prepare(output, job, bulk.overwrite)
        shards, before = _left(output, sources, bulk.files_per_shard, job.kind)
        if bulk.events is not None:
            bulk.events.begun(len(sources), before)
        done = {outcome.shard: outcome for outcome in before}
        if shards:
            with _ray(bulk.ray_address) as nodes, _watch(job, bulk.events):
                for outcome in _transcribed(shards, job, nodes):
                    # A unit that is done again, after a worker has died, tells of its shard again.
                    if not outcome.is_shard or outcome.shard in done:
                        continue
                    done[outcome.shard] = outcome
                    if bulk.events is not None:
                        bulk.events.done(outcome)
        _check_all_there(output, shards)
        output.remove(WORK)
        return list(done.values())


def _watch(job: Job, events: Events | None) -> AbstractContextManager[object]:
    return ServerWatch(job.urls, events) if job.urls and events else nullcontext()


def _prepare(output: Output, job: Job, overwrite: bool) -> None:
    """Check what the output holds against what is asked for, and note the latter.

    Raises:
        BulkError: it holds something else, and `overwrite` is false.
    """
    asked = {
        "schema": SCHEMA,
        "shards": job.kind,
        "format": sorted(job.formats),
        "options": dict(job.options),
        "whisper": job.whisper,
    }
    if overwrite:
        for name in output.names():
            if SHARD.fullmatch(name):
                output.remove(name)
        for folder in (WORK, DONE, RUN, FILES):
            if output.exists(folder):
                output.remove(folder)
    try:
        found = json.loads(output.read(RUN))
    except FileNotFoundError:
        found = None
    except ValueError:
        raise BulkError(f"{output.path(RUN)} is damaged; --overwrite does all again") from None
    if found is None:
        if any(SHARD.fullmatch(name) for name in output.names()):
            raise BulkError(
                f"--out {output.address} holds shards, but not {RUN}, which tells of what run: "
                "use another folder, or --overwrite to do all again"
            )
        note = {**asked, "conch": __version__}
        output.write(RUN, json.dumps(note, indent=1, ensure_ascii=False).encode() + b"\n")
        return
    if found.get("schema") != SCHEMA:
        raise BulkError(
            f"--out {output.address} holds shards of version {found.get('schema')}; this Conch "
            f"writes version {SCHEMA}: use another folder, or --overwrite to do all again"
        )
    for name, value in asked.items():
        # An older note lacks what was not asked for.
        if (found.get(name) or None) != (value or None):
            raise BulkError(
                f"--out {output.address} holds the results of a run with {name} "
                f"{_told(found.get(name))}; asked: {_told(value)}: use another folder, or "
                "--overwrite to do all again"
            )


def _told(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if value else "none"


def _left(
    output: Output, sources: Sequence[Source], size: int | None, kind: str
) -> tuple[list[Shard], list[Outcome]]:
    """Return the shards to do, and the outcomes of those that are there.

    Raises:
        BulkError: a shard is damaged, or of another version.
    """
    found = [name for name in output.names() if SHARD.fullmatch(name)]
    shards = shards_of(sources, size)
    if not_planned(shards, found):
        # The inputs have changed: what is there tells what need not be done.
        done = {item for name in found for item in ids_of(output.path(name), output.read(name))}
        shards = shards_of([source for source in sources if source.id not in done], size)
    names = [name.partition(".")[0] for name in found]
    with ThreadPoolExecutor(READS_AT_ONCE) as pool:
        before = list(pool.map(lambda name: outcome_there(output, name, kind), names))
    return without_done(shards, found), before


def _check_all_there(output: Output, shards: Sequence[Shard]) -> None:
    missing = without_done(shards, output.names())
    if missing:
        raise BulkError(
            f"{len(missing)} of {len(shards)} shards are not there, as {missing[0].name}; "
            "the same command goes on from here"
        )


@contextmanager
def _ray(address: str | None) -> Iterator[list[str]]:
    """Connect to a Ray cluster, or start Ray here; yield the ids of the nodes that may work."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Its core warns on stderr of what its libraries do.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray

    given = address or os.environ.get("RAY_ADDRESS")
    settings: dict[str, Any] = {"address": given}
    if not given:
        settings = {
            "address": "local",
            "object_store_memory": STORE_BYTES,
            "include_dashboard": False,
        }
    host, _, port = given.rpartition(":") if given else ("127.0.0.2", "", "")
    if host and port.isdigit() and "/" not in host:
        _check_answers(host, int(port))
    if is_loopback(host) and host not in LOCALHOST:
        # Ray takes localhost for this machine's address in the network, and needs no help there.
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


def _check_answers(host: str, port: int) -> None:
    """Look whether anything listens where a Ray cluster should; Ray would try for minutes.

    Raises:
        BulkError: nothing does.
    """
    try:
        socket.create_connection((host.strip("[]"), port), CONNECT_S).close()
    except OSError as error:
        raise BulkError(f"--ray {host}:{port}: no Ray cluster answers: {error}") from None


@contextmanager
def _silent() -> Iterator[None]:
    """Keep stderr from what Ray's core tells there of the level of its log."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _transcribed(shards: Sequence[Shard], job: Job, nodes: Sequence[str]) -> Iterator[Outcome]:
    """Yield the outcomes of units as Ray Data finishes them.

    Raises:
        BulkError: as the workers raise it.
    """
    import ray
    from ray.data import ActorPoolStrategy, DataContext

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = BLOCK_BYTES
    models = ("speech", *components_of(RecognitionOptions.parse(job.options)))
    chosen = ("--whisper", job.whisper) if job.whisper else ()
    own = NodeAddress(job.run, (*job.command, *chosen), models)
    address = NextUrl(job.urls) if job.urls else own
    servers = [] if job.urls else [own.actor(node) for node in nodes]
    units = [{"unit": Unit(shard.name, shard.sources).to_json()} for shard in shards]
    try:
        with _explained():
            # Those that do not start end the run here, not each unit.
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
                yield Outcome.from_json(row["outcome"])
    finally:
        for server in servers:
            server.stop.remote()
        if servers:
            # Ray kills what is left at its end; a server wants a moment to go in order.
            ended = [server.is_running.remote() for server in servers]
            ray.wait(ended, num_returns=len(servers), timeout=STOP_S)


@contextmanager
def _explained() -> Iterator[None]:
    """Raise a worker's BulkError in place of what Ray wraps it in.

    Raises:
        BulkError: as the worker did, or that Ray has failed.
    """
    from ray.exceptions import RayError

    try:
        yield
    except RayError as error:
        raise BulkError(told_by_worker(error)) from None


def told_by_worker(error: BaseException) -> str:
    """Return what a worker's error says: of Ray's, what the BulkError inside said.

    Ray Data wraps what its functions raise, and pickling drops the causes; the text of the
    traceback remains.
    """
    chain = [error]
    while (cause := getattr(chain[-1], "cause", None) or chain[-1].__cause__) is not None:
        if not isinstance(cause, BaseException) or cause in chain:
            break
        chain.append(cause)
    # Ray's wrapper derives from the class of what it wraps, and tells all of the traceback.
    own = [str(item) for item in chain if type(item) is BulkError]
    own += [found for item in chain for found in _RAISED.findall(str(item))]
    return own[0] if own else f"Ray: {type(chain[-1]).__name__}: {chain[-1]}"


class NextUrl:
    """The address of a server that exists: after one that was lost, the next."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = list(urls)

    def __call__(self, lost: str) -> str:
        """Return an address other than the one that was lost, if there is another."""
        place = self._urls.index(lost) + 1 if lost in self._urls else 0
        return self._urls[place % len(self._urls)]


class NodeAddress:
    """The address of the server of the node on which it is asked for."""

    def __init__(self, run: str, command: Sequence[str], models: Sequence[str]) -> None:
        self._run, self._command, self._models = run, command, models

    def __call__(self, lost: str) -> str:
        """Return the address as soon as the server is ready; it is started if there is none.

        Raises:
            BulkError: it does not start.
        """
        import ray

        with _explained():
            return str(ray.get(self.actor(ray.get_runtime_context().get_node_id()).url.remote()))

    def actor(self, node: str) -> Any:
        """Return the actor of a node, which is made if there is none."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return (
            ray.remote(NodeServer)
            .options(
                name=f"{SERVER_NAME}-{self._run}-{node}",
                get_if_exists=True,
                num_cpus=0,
                max_restarts=-1,
                max_task_retries=-1,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            )
            .remote(self._command, self._models)
        )
