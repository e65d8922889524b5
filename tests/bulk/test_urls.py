"""Several servers that run already, named with --url: all are used, and one may be lost."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from bulk_runs import BAD_FILES, FILES, finished, ids, shards
from waiting import wait_until

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not find_spec("ray"), reason="Ray is missing: make bulk-test has it"),
    pytest.mark.timeout(900),
    # Ray's own.
    pytest.mark.filterwarnings("ignore"),
]
PLAIN_SERVE = Path(__file__).parents[1] / "support" / "plain_serve.py"
Start = Callable[..., "subprocess.Popen[str]"]
Server = tuple[str, "subprocess.Popen[str]"]


@contextmanager
def plain_server(version: str) -> Iterator[Server]:
    """Run a server whose models have a version; yield its URL and its process."""
    environment = {**os.environ, "CONCH_PLAIN_SECONDS": "0.2", "CONCH_PLAIN_VERSION": version}
    with subprocess.Popen(
        [sys.executable, PLAIN_SERVE], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if match := re.search(r"grpc://\S+", line):
                    yield match[0], process
                    return
            pytest.fail("the server did not start")
        finally:
            process.kill()


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    with ExitStack() as stack:
        yield [stack.enter_context(plain_server(version)) for version in ("7", "8")]


def answers(out: Path) -> Counter[str]:
    """Return how many recordings each version of the models has answered."""
    rows = [json.loads(row) for shard in shards(out).values() for row in shard]
    return Counter(row["models"]["vad"] for row in rows if row["error"] is None)


def test_each_server_has_its_share(
    bulk: Start, servers: list[Server], short_files: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    urls = [part for url, _ in servers for part in ("--url", url)]
    said = finished(
        bulk(short_files, "--out", out, *urls, "--jobs", "2", "--files-per-shard", "5"), 1
    )
    assert f"{FILES} files in 60 shards, {BAD_FILES} failed" in said
    result = answers(out)
    assert result.keys() == {"7 packaged", "8 packaged"}
    assert result.total() == FILES - BAD_FILES
    assert min(result.values()) > FILES // 5


def test_a_lost_server_leaves_its_work_to_the_other(
    bulk: Start, servers: list[Server], short_files: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    urls = [part for url, _ in servers for part in ("--url", url)]
    process = bulk(short_files, "--out", out, *urls, "--jobs", "2", "--files-per-shard", "5")

    def has_begun() -> bool:
        assert process.poll() is None, process.communicate()[0]
        return len(list(out.glob("part-*"))) >= 8

    wait_until(has_begun, timeout_s=300)
    servers[0][1].kill()
    said = finished(process, 1)
    assert f"{FILES} files in 60 shards, {BAD_FILES} failed" in said
    result = shards(out)
    assert len(ids(result)) == len(set(ids(result))) == FILES
    assert answers(out)["8 packaged"] > answers(out)["7 packaged"] > 0
