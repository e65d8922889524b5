"""Worker, server, node and driver are killed in the middle: no file is lost, none doubled."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import islice, permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
from bulk_runs import BAD_FILES, FILES, finished, ids, shards
from waiting import wait_until

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not find_spec("ray"), reason="Ray is missing: make bulk-test has it"),
    pytest.mark.timeout(1200),
    # Ray's own.
    pytest.mark.filterwarnings("ignore"),
]

ROOT = Path(__file__).parents[2]
NODES = 3
SECONDS = "0.25"
"""Time of one request, so that a kill comes in the middle."""
SPOKEN = 20
"""Files for a real server."""
SERVER_PROCESSES = {
    "conch serve": re.compile(r"\S*python\S* \S*conch serve "),
    "tritonserver": re.compile(r"\S*/tritonserver "),
}
"""How the titles of a real server's processes begin."""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator["Cluster"]:
    monkeypatch.setenv("CONCH_PLAIN_SECONDS", SECONDS)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    # Ray takes 127.0.0.1 for this machine's address in the network.
    settings = {"node_ip_address": "127.0.0.2", "object_store_memory": 100 << 20}
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, **settings},
    )
    for _ in range(NODES):
        made.add_node(num_cpus=2, **settings)
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def plain(tmp_path_factory, short_files: Path, plain_conch: Path) -> dict[str, list[str]]:
    """Return the shards of a run on this machine alone, without any trouble."""
    out = tmp_path_factory.mktemp("plain")
    arguments = [
        "bulk",
        short_files,
        "--out",
        out,
        "--conch",
        plain_conch,
        "--files-per-shard",
        "5",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "conch.cli", *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr
    result = shards(out)
    assert len(ids(result)) == FILES
    return result


def children(pid: int) -> list[tuple[int, str]]:
    """Return the processes below a process, with their titles."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                title = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            parents[int(entry.name)] = (int(fields[1]), title)
    result, todo = [], [pid]
    while todo:
        parent = todo.pop()
        for child, (above, title) in parents.items():
            if above == parent:
                result.append((child, title))
                todo.append(child)
    return result


def raylet_of(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def in_the_middle(
    out: Path, process: "subprocess.Popen[str]", first: int = 8, last: int = 55
) -> None:
    """Wait until `first` shards are there; `last` are too many."""

    def is_there() -> bool:
        assert process.poll() is None, process.communicate()[0]
        return len(list(out.glob("part-*"))) >= first

    wait_until(is_there, timeout_s=400)
    assert len(list(out.glob("part-*"))) < last, "too late for this test"


def start_on(bulk: Start, cluster: "Cluster", folder: Path, out: Path, conch: Path):
    shards = ("--files-per-shard", "5")
    return bulk(folder, "--out", out, "--ray", cluster.address, "--conch", conch, *shards)


def check(out: Path, plain: dict[str, list[str]], said: str) -> None:
    assert shards(out) == plain
    assert f"{FILES} files in " in said
    assert f"{BAD_FILES} failed" in said
    assert not (out / "_conch" / "work").exists()
    assert not list(out.glob(".making-*"))


def test_a_killed_worker_loses_nothing(
    cluster: "Cluster", bulk: Start, short_files: Path, plain_conch: Path, plain, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = start_on(bulk, cluster, short_files, out, plain_conch)
    in_the_middle(out, process)
    workers = [
        pid
        for node in cluster.worker_nodes
        for pid, title in children(raylet_of(node))
        if "Transcriber" in title
    ]
    assert len(workers) == NODES
    os.kill(workers[0], signal.SIGKILL)
    check(out, plain, finished(process, 1))


def test_a_killed_server_and_its_actor_are_started_again(
    cluster: "Cluster", bulk: Start, short_files: Path, plain_conch: Path, plain, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = start_on(bulk, cluster, short_files, out, plain_conch)
    in_the_middle(out, process)
    nodes = sorted(cluster.worker_nodes, key=raylet_of)
    below = children(raylet_of(nodes[0]))
    (actor,) = [pid for pid, title in below if "ray::NodeServer" in title]
    (server,) = [pid for pid, title in below if "plain_serve.py serve" in title]
    os.kill(actor, signal.SIGKILL)
    # The guard ends what the actor has started.
    wait_until(lambda: not Path(f"/proc/{server}").exists())
    below = children(raylet_of(nodes[1]))
    (server,) = [pid for pid, title in below if "plain_serve.py serve" in title]
    os.kill(server, signal.SIGKILL)
    check(out, plain, finished(process, 1))


def test_a_killed_node_loses_nothing(
    cluster: "Cluster", bulk: Start, short_files: Path, plain_conch: Path, plain, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = start_on(bulk, cluster, short_files, out, plain_conch)
    in_the_middle(out, process)
    node = next(iter(cluster.worker_nodes))
    below = [pid for pid, title in children(raylet_of(node)) if "plain_serve.py serve" in title]
    cluster.remove_node(node, allow_graceful=False)
    check(out, plain, finished(process, 1))
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))


def test_after_a_killed_driver_the_same_command_goes_on(
    cluster: "Cluster", bulk: Start, short_files: Path, plain_conch: Path, plain, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = start_on(bulk, cluster, short_files, out, plain_conch)
    in_the_middle(out, process)
    process.kill()
    process.communicate()
    there = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert 0 < len(there) < 60
    said = finished(start_on(bulk, cluster, short_files, out, plain_conch), 1)
    check(out, plain, said)
    assert "were done before" in said
    # What was there is not done again.
    assert there.items() <= {p.name: p.stat().st_mtime_ns for p in out.glob("part-*")}.items()


@pytest.fixture(scope="module")
def spoken_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of SPOKEN recordings, no two with the same words in the same order."""
    folder = tmp_path_factory.mktemp("spoken")
    spoken = sorted((ROOT / "tests" / "data").glob("kokoro*.ogg"))
    for first, second in islice(permutations(spoken, 2), SPOKEN):
        (samples, rate), (after, same_rate) = map(soundfile.read, (first, second))
        assert rate == same_rate
        both = np.concatenate([samples, after])
        soundfile.write(folder / f"{first.stem}-{second.stem}.wav", both, rate)
    return folder


def texts(out: Path, said: str) -> dict[str, str]:
    """Return the text of each recording, of which no two are the same."""
    rows = [json.loads(row) for shard in shards(out).values() for row in shard]
    by_id = {row["id"]: row["text"] for row in rows}
    assert len(rows) == len(by_id) == len(set(by_id.values())) == SPOKEN
    assert f"{SPOKEN} files in {SPOKEN // 2} shards, 0 failed" in said
    return by_id


@pytest.fixture(scope="module")
def spoken_texts(tmp_path_factory, spoken_files: Path, real_conch: Path) -> dict[str, str]:
    """Return the texts of a run with a real server, without any trouble."""
    out = tmp_path_factory.mktemp("spoken_texts")
    arguments = ["bulk", spoken_files, "--out", out, "--conch", real_conch]
    arguments += ["--files-per-shard", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "conch.cli", *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return texts(out, done.stderr)


def processes_of_server(process: "subprocess.Popen[str]") -> dict[str, int]:
    """Return the processes of the server of the only node, by their names."""
    below = children(process.pid)
    return {
        name: pid
        for name, title_of in SERVER_PROCESSES.items()
        for pid, title in below
        if title_of.match(title)
    }


@pytest.mark.server
@pytest.mark.parametrize("killed", SERVER_PROCESSES)
def test_a_killed_real_server_loses_no_text(
    bulk: Start,
    spoken_files: Path,
    real_conch: Path,
    spoken_texts: dict[str, str],
    tmp_path: Path,
    killed: str,
) -> None:
    out = tmp_path / "out"
    process = bulk(spoken_files, "--out", out, "--conch", real_conch, "--files-per-shard", "2")
    in_the_middle(out, process, first=2, last=8)
    before = processes_of_server(process)
    assert before.keys() == SERVER_PROCESSES.keys()
    os.kill(before[killed], signal.SIGKILL)
    # What a dead `conch serve` has started ends with it.
    wait_until(lambda: not Path(f"/proc/{before['tritonserver']}").exists())
    assert texts(out, finished(process, 0)) == spoken_texts
