"""The driver of a bulk run: the shards to do, and the outcomes."""

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Protocol
from urllib.parse import urlsplit

from conch import __version__
from conch.bulk import ray_data
from conch.bulk.inputs import Source, sources_of
from conch.bulk.shards import (
    SCHEMA,
    SHARD,
    Shard,
    check_settings,
    not_planned,
    rows_of,
    shards_of,
    without_done,
)
from conch.bulk.storage import DONE, FILES, RUN, WORK, Output, locked
from conch.bulk.work import Job, ShardOutcome, recorded_outcome
from conch.client.endpoint import Address
from conch.wire.errors import BulkError
from conch.wire.known_speakers import without_voices

READS_AT_ONCE = 16

LOOK_S = 5.0
"""Seconds between two looks; the second in a row without an answer counts."""
CONNECT_S = 5.0
"""Seconds for a connection. A busy server takes it at once, however late it answers."""


class RunEvents(Protocol):
    """Receiver of the progress of a run; of the state of servers on a thread of its own."""

    left_out: Counter[str]  # see `sources_of`

    def begun(self, files: int, before: Sequence[ShardOutcome]) -> None: ...
    def done(self, outcome: ShardOutcome) -> None: ...
    def server_lost(self, url: str, reason: str) -> None: ...
    def server_back(self, url: str) -> None: ...


def run(
    inputs: Sequence[str],
    job: Job,
    events: RunEvents,
    *,
    overwrite: bool = False,
    ray_address: str | None = None,
    files_per_shard: int | None = None,
) -> list[ShardOutcome]:
    """Transcribe the missing shards; return the outcomes of all shards."""
    sources, output = sources_of(inputs, left_out=events.left_out), Output(job.out)
    output.make()
    with locked(output) as run_id:
        job = replace(job, run=run_id)
        output.remove_leftovers()
        _prepare(output, job, overwrite)
        shards, before = _left(output, sources, files_per_shard, job.shard_format)
        events.begun(len(sources), before)
        done = {outcome.shard: outcome for outcome in before}
        if shards:
            with (
                ray_data.connected(ray_address) as nodes,
                watched(job.urls, events.server_lost, events.server_back),
                # Ctrl-C may come here too, and ends the servers before Ray.
                closing(ray_data.outcomes(shards, job, nodes)) as outcomes,
            ):
                for outcome in outcomes:
                    # A unit that is repeated after its worker died reports its shard again.
                    if not outcome.files or outcome.shard in done:
                        continue
                    done[outcome.shard] = outcome
                    events.done(outcome)
        if missing := without_done(shards, output.names()):
            raise BulkError(
                f"{len(missing)} of {len(shards)} shards are missing, such as {missing[0].name}; "
                "run the same command again to continue"
            )
        output.remove(WORK)
        return list(done.values())


def _prepare(output: Output, job: Job, overwrite: bool) -> None:
    if overwrite:
        shards = [name for name in output.names() if SHARD.fullmatch(name)]
        for name in (*shards, WORK, DONE, RUN, FILES):
            output.remove(name)
    settings = {
        "shards": job.shard_format,
        "format": sorted(job.formats),
        "options": without_voices(job.options),
        **job.weights,
    }
    try:
        recorded = json.loads(output.read(RUN))
    except FileNotFoundError:
        if any(SHARD.fullmatch(name) for name in output.names()):
            raise BulkError(
                f"--out {output.address} holds shards, but not {RUN}, which describes their run: "
                "use another folder, or --overwrite to do all again"
            ) from None
        note = {"schema": SCHEMA, **settings, "conch": __version__}
        output.write(RUN, json.dumps(note, indent=1, ensure_ascii=False).encode() + b"\n")
        return
    except ValueError:
        raise BulkError(f"{output.path(RUN)} is damaged; --overwrite does all again") from None
    if recorded.get("schema") != SCHEMA:
        raise BulkError(
            f"--out {output.address} holds shards of version {recorded.get('schema')}; this Conch "
            f"writes version {SCHEMA}: use another folder, or --overwrite to do all again"
        )
    check_settings(f"--out {output.address}", recorded, settings)


def _left(
    output: Output, sources: Sequence[Source], size: int | None, shard_format: str
) -> tuple[list[Shard], list[ShardOutcome]]:
    written = [name for name in output.names() if SHARD.fullmatch(name)]
    shards = shards_of(sources, size)
    if not_planned(shards, written):
        # The inputs have changed: keep the recordings of all shards.
        columns = ("id", "schema")
        done = {
            str(row["id"])
            for name in written
            for row in rows_of(output.path(name), output.read(name), columns)
        }
        shards = shards_of([source for source in sources if source.id not in done], size)
    names = [name.partition(".")[0] for name in written]
    with ThreadPoolExecutor(READS_AT_ONCE) as pool:
        before = list(pool.map(lambda name: recorded_outcome(output, name, shard_format), names))
    return without_done(shards, written), before


def absence(url: str) -> str | None:
    """Return why no server takes a connection; None if one does."""
    parts = urlsplit(str(Address.parse(url)))
    try:
        socket.create_connection((parts.hostname, parts.port or 0), CONNECT_S).close()
    except OSError as error:
        return f"no server answers at {url}: {error}"
    return None


@contextmanager
def watched(
    urls: Sequence[str],
    on_loss: Callable[[str, str], None],
    on_return: Callable[[str], None],
    *,
    look_s: float = LOOK_S,
    absence: Callable[[str], str | None] = absence,
) -> Iterator[None]:
    """Watch servers inside the block; the two functions are called on a thread."""
    done = threading.Event()

    def look() -> None:
        misses = dict.fromkeys(urls, 0)
        while not done.wait(look_s):
            for url in misses:
                problem = absence(url)
                if done.is_set():
                    return
                if problem is None and misses[url] > 1:
                    on_return(url)
                misses[url] = 0 if problem is None else misses[url] + 1
                if problem is not None and misses[url] == 2:
                    on_loss(url, problem)

    threading.Thread(target=look, name="conch-bulk-watch", daemon=True).start()
    try:
        yield
    finally:
        # A look may take as long as a connection does, and its result has no use now.
        done.set()
