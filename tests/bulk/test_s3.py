"""Inputs and outputs in an object store (moto's S3 on loopback), and what fails there."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from bulk_runs import BAD_FILES, FILES, finished

from conch.bulk.inputs import sources_of
from conch.bulk.storage import LOCK, Output, locked, require
from conch.wire.errors import BulkError

LACKS = [name for name in ("ray", "s3fs", "moto") if not find_spec(name)]

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(bool(LACKS), reason=f"{LACKS} missing: make bulk-test has them"),
]


@pytest.fixture(scope="module")
def store() -> Iterator[None]:
    """Serve S3 with a bucket `calls`, and have fsspec find it."""
    import fsspec
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    variables = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    system = fsspec.filesystem("s3")
    system.mkdir("calls")
    yield
    system.clear_instance_cache()
    server.stop()
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def test_a_bucket_is_transcribed_into_another_folder_of_it(
    store: None,
    bulk: Callable[..., "subprocess.Popen[str]"],
    short_files: Path,
    plain_conch: Path,
) -> None:
    import fsspec

    system = fsspec.filesystem("s3")
    system.put(f"{short_files}/", "calls/in/", recursive=True)
    arguments = (
        *("s3://calls/in", "--out", "s3://calls/out", "--shards", "parquet", "--format", "txt"),
        *("--conch", plain_conch, "--files-per-shard", "5"),
    )
    said = finished(bulk(*arguments), 1)
    assert f"{FILES} files in 60 shards, {BAD_FILES} failed" in said
    system.invalidate_cache()
    import pyarrow.parquet as parquet

    rows = parquet.read_table("calls/out", filesystem=system).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows) == FILES
    row = next(row for row in rows if row["id"] == "s3://calls/in/0000.wav")
    beside = system.cat_file("calls/out/_files/txt/s3/calls/in/0000.wav.txt").decode()
    assert beside == row["text"] + "\n"
    assert json.loads(row["models"]) == {"vad": "1 packaged", "attention_encoder": "1 packaged"}
    # Nothing is left to do, and the lock is gone.
    said = finished(bulk(*arguments), 1)
    assert f"{FILES} of {FILES} files were done before" in said
    assert not system.exists(f"calls/out/{LOCK}")


def test_a_bucket_that_cannot_be_read_is_named(store: None) -> None:
    with pytest.raises(BulkError, match="s3://nowhere/in"):
        sources_of(["s3://nowhere/in"])
    with pytest.raises(BulkError, match="s3://nowhere/out"):
        Output("s3://nowhere/out").write("x", b"x")


def test_a_store_without_an_answer_is_named() -> None:
    code = "from conch.bulk.inputs import sources_of; sources_of(['s3://calls/in'])"
    environment = {**os.environ, "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"}
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**environment, **keys}
    )
    assert "BulkError: cannot read s3://calls/in" in done.stderr


def test_one_run_locks_a_bucket(store: None) -> None:
    output = Output("s3://calls/locked")
    with locked(output, beat_s=0.2) as run:
        require(output, run)
        with pytest.raises(BulkError, match="another bulk run writes there"):
            locked(output, beat_s=0.2).__enter__()
    assert not output.exists(LOCK)
