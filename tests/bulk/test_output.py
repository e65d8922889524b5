"""Files appear whole or not at all; one run at a time writes; shards survive being read back."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import pytest

from conch.bulk import ray_data
from conch.bulk.inputs import Source, sources_of
from conch.bulk.ray_data import message_of
from conch.bulk.run import run
from conch.bulk.sending import Answer
from conch.bulk.shards import SCHEMA, row_of, rows_of, shard_bytes, shards_of
from conch.bulk.storage import LOCK, RUN, Output, locked, require
from conch.bulk.work import (
    Job,
    ShardOutcome,
    format_bytes,
    format_path,
    recorded_outcome,
    write_formats,
    write_shard,
)
from conch.wire.errors import AudioError, BulkError
from conch.wire.result import Hypothesis, Segment, Transcript, Word

pytestmark = pytest.mark.skipif(not find_spec("fsspec"), reason="fsspec is missing: extra bulk")

HOLD = """
import sys
from conch.bulk.storage import locked
from conch.bulk.storage import Output
with locked(Output(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=["local", "memory"])
def output(request, tmp_path: Path):
    made = Output(str(tmp_path / "out") if request.param == "local" else "memory://out")
    made.make()
    yield made
    if request.param == "memory":
        made.remove("")


def rows(*names: str) -> list:
    failed = Answer(None, AudioError("bad"))
    return [row_of(Source(name, name), failed, {"nbest": 2}) for name in names]


def test_a_file_is_written_read_and_removed(output: Output) -> None:
    output.write("a/b.json", b"1")
    output.write("a/b.json", b"2")
    assert output.read("a/b.json") == b"2"
    assert output.names("a") == ["b.json"]
    assert output.names("nowhere") == []
    output.remove("a")
    output.remove("a")
    with pytest.raises(FileNotFoundError):
        output.read("a/b.json")


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch) -> None:
    output = Output(str(tmp_path))
    output.write("x.jsonl", b"before")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BulkError, match=r"cannot write .*x\.jsonl: No space left on device"):
        output.write("x.jsonl", b"after")
    assert [path.name for path in tmp_path.iterdir()] == ["x.jsonl"]
    assert output.read("x.jsonl") == b"before"


def test_two_runs_do_not_write_to_one_folder(tmp_path: Path) -> None:
    output = Output(str(tmp_path))
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BulkError, match=f"another bulk run writes there .process {holder.pid}"):
            locked(output).__enter__()
        os.kill(holder.pid, signal.SIGKILL)
    with locked(output) as run:
        require(output, run)
    with pytest.raises(BulkError, match="no longer locked by this run"):
        require(output, run)


def test_a_lock_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    (tmp_path / LOCK).mkdir(parents=True)
    with pytest.raises(BulkError, match=r"cannot lock .*lock\.json: Is a directory"):
        locked(Output(str(tmp_path))).__enter__()


def test_the_lock_of_an_object_store_goes_with_its_holder() -> None:
    output = Output("memory://locked")
    try:
        with locked(output, beat_s=0.05) as first:
            with pytest.raises(BulkError, match="another bulk run writes there"):
                locked(output, beat_s=0.05, still_s=60).__enter__()
            require(output, first)
        assert not output.exists(LOCK)
        output.write(LOCK, b'{"run": "dead", "beat": 7}')
        with locked(output, beat_s=0.05, still_s=0.2) as second:
            require(output, second)
            with pytest.raises(BulkError):
                require(output, "dead")
    finally:
        output.remove("")


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_shard_is_read_back(kind: str) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is missing: it comes with the extra bulk")
    content = shard_bytes(kind, rows("a.wav", "ü.wav"))
    ids = rows_of(f"x.{kind}", content, ("id", "schema"))
    assert [row["id"] for row in ids] == ["a.wav", "ü.wav"]
    assert [row["error_code"] for row in rows_of(f"x.{kind}", content)] == ["INVALID_AUDIO"] * 2
    assert shard_bytes(kind, rows("a.wav", "ü.wav")) == content
    with pytest.raises(BulkError, match="not a complete shard"):
        rows_of(f"x.{kind}", content[: len(content) - 7], ("id", "schema"))


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("version", [SCHEMA - 1, SCHEMA + 1])
def test_a_shard_of_another_version_is_named(kind: str, version: int) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is missing: it comes with the extra bulk")
    (row,) = rows("a.wav")
    content = shard_bytes(kind, [{**row, "schema": version}])
    message = rf"x\.{kind} is a shard of version {version}; this Conch writes version {SCHEMA}: use"
    with pytest.raises(BulkError, match=message):
        rows_of(f"x.{kind}", content, ("id", "schema"))


def test_a_shard_appears_last_and_has_the_failures(tmp_path: Path) -> None:
    output = Output(str(tmp_path))
    shard = "part-000000-0123456789abcdef"
    told = write_shard(Job(str(tmp_path), "run"), output, shard, rows("a.wav"))
    assert told.errors == (("a.wav", "bad"),)
    assert recorded_outcome(output, shard, "jsonl") == told
    output.remove("_conch/done")
    assert recorded_outcome(output, shard, "jsonl") == told


def test_files_next_to_the_shards_have_unique_names() -> None:
    names = ["/a/x.wav", "/a/x.mp3", "s3://b/x.wav", "/../x"]
    result = [format_path(Source(name, name), "srt") for name in names]
    expected = ["a/x.wav.srt", "a/x.mp3.srt", "s3/b/x.wav.srt", "_/x.srt"]
    assert result == [f"_files/srt/{name}" for name in expected]


def test_no_file_has_the_secret_of_a_url_in_its_name() -> None:
    plain, *signed = [
        format_path(Source(name, name), "txt")
        for name in (
            "https://host/calls/a.wav",
            "https://host/calls/a.wav?X-Amz-Signature=s3cret",
            "https://host/calls/a.wav?X-Amz-Signature=s3cret&part=2",
            "ftp://anna:s3cret@host/calls/a.wav",
        )
    ]
    assert plain == "_files/txt/https/host/calls/a.wav.txt"
    assert len({plain, *signed}) == 4
    for path in signed:
        assert "s3cret" not in path and "Amz" not in path
        assert path.split("/")[3:-1] == ["host", "calls"]
        assert path.rpartition("/")[2].startswith("a.wav-")


def test_a_log_has_no_secret_of_a_url() -> None:
    url = "https://anna:s3cret@host/a.wav?signature=s3cret"
    row = {"path": url, "error": f"404, url='{url}'", "duration": None, "warnings": ["quiet"]}
    told = ShardOutcome.of("part", [row])
    assert told.errors == (("https://host/a.wav", "404, url='https://host/a.wav"),)
    assert told.warnings == (("https://host/a.wav", "quiet"),)


SAID = Transcript((Hypothesis("good day", -1.0, -1.0),), (), 1.0, (), {})


@pytest.mark.parametrize("name", ["x" * 252, "a\0b", "call.txt/part"])
def test_an_id_that_no_file_can_have_is_an_error_of_its_row(name: str, tmp_path: Path) -> None:
    job, output = Job(str(tmp_path), "", formats=("txt", "json")), Output(str(tmp_path))
    call = Source("call", "call.wav")
    assert write_formats(job, output, call, Answer(SAID)) == Answer(SAID)
    result = write_formats(job, output, Source(name, "b.wav"), Answer(SAID, None, 2.0))
    row = row_of(Source(name, "b.wav"), result, {})
    assert (row["text"], row["error_code"]) == (None, "INVALID_REQUEST")
    assert row["error"].startswith("no file of --format can have this id: cannot write ")
    assert (tmp_path / "_files/txt/call.txt").read_text() == "good day\n"


def test_a_full_disk_is_no_error_of_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(BulkError, match="No space left"):
        write_formats(
            Job(str(tmp_path), "", formats=("txt",)),
            Output(str(tmp_path)),
            Source("a", "a"),
            Answer(SAID),
        )


def test_ctm_next_to_the_shards_has_the_recordings_name() -> None:
    words = (Word("good", 0.1, 0.4, 0.5), Word("day", 0.4, 0.9, 0.5))
    segment = Segment(0.0, 1.0, (Hypothesis("good day", -1.0, -1.0),), words)
    said = Transcript(segment.nbest, (segment,), 1.0, (), {})
    assert format_bytes("ctm", said, "s3://b/my talk.wav").decode() == (
        "my_talk A 0.100 0.300 good 0.5000\nmy_talk A 0.400 0.500 day 0.5000\n"
    )
    assert format_bytes("txt", said, "x.wav") == b"good day\n"


@pytest.fixture
def audio(tmp_path: Path) -> str:
    path = tmp_path / "a.wav"
    path.write_bytes(b"x")
    return str(path)


@pytest.fixture
def job(tmp_path: Path, audio: str) -> Job:
    """Return a run whose only shard is there, so that it needs no Ray."""
    job = Job(str(tmp_path / "out"), "", options={"nbest": 2})
    output = Output(job.out)
    (shard,) = shards_of(sources_of([audio]))
    note = {"schema": SCHEMA, "shards": "jsonl", "format": [], "options": {"nbest": 2}}
    output.write(RUN, json.dumps(note).encode())
    write_shard(job, output, shard.name, rows(audio))
    return job


def test_what_is_done_is_not_done_again(job: Job, audio: str) -> None:
    (outcome,) = run([audio], job, Mock())
    assert outcome.files == 1
    assert len(outcome.errors) == 1


def test_an_output_of_other_options_is_left_alone(job: Job, audio: str) -> None:
    before = sorted(Path(job.out).rglob("*.jsonl"))
    with pytest.raises(BulkError, match=r'with options {"nbest": 2}; asked: {"nbest": 3}'):
        run([audio], replace(job, options={"nbest": 3}), Mock())
    with pytest.raises(BulkError, match="with shards"):
        run([audio], replace(job, shard_format="parquet"), Mock())
    for version in (SCHEMA - 1, SCHEMA + 1):
        Output(job.out).write(RUN, json.dumps({"schema": version}).encode())
        message = (
            f"holds shards of version {version}; this Conch writes version {SCHEMA}: use another"
        )
        with pytest.raises(BulkError, match=message):
            run([audio], job, Mock())
    Output(job.out).remove(RUN)
    with pytest.raises(BulkError, match=r"holds shards, but not _conch/run\.json"):
        run([audio], job, Mock())
    assert sorted(Path(job.out).rglob("*.jsonl")) == before


@pytest.fixture
def twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each shard written by a worker that dies, so that its unit is done again."""

    def outcomes(shards, job: Job, nodes):
        output = Output(job.out)
        for shard in shards:
            yield ShardOutcome(shard.name)
            yield write_shard(job, output, shard.name, rows(*(item.id for item in shard.sources)))
            yield recorded_outcome(output, shard.name, job.shard_format)

    monkeypatch.setattr(ray_data, "connected", lambda address: nullcontext([]))
    monkeypatch.setattr(ray_data, "outcomes", outcomes)


@pytest.mark.usefixtures("twice")
def test_a_shard_that_is_reported_twice_counts_once(job: Job, audio: str, tmp_path: Path) -> None:
    other = tmp_path / "b.wav"
    other.write_bytes(b"x")
    assert sum(outcome.files for outcome in run([audio, str(other)], job, Mock())) == 2


@pytest.mark.usefixtures("twice")
def test_overwrite_removes_what_runs_have_written_and_nothing_else(job: Job, audio: str) -> None:
    out = Path(job.out)
    (before,) = out.glob("part-*")
    for name in ("_files/txt/a.txt", "_conch/work/x.json", "part-mine.jsonl", "mine/a.txt"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("x")
    kind = "parquet" if find_spec("pyarrow") else "jsonl"
    other = replace(job, options={"nbest": 3}, shard_format=kind)
    before.write_text("old")
    (outcome,) = run([audio], other, Mock(), overwrite=True)
    assert outcome.files == 1
    (shard,) = [path for path in out.glob("part-*") if path.name != "part-mine.jsonl"]
    assert shard.read_bytes() != b"old"
    assert shard.suffix == f".{kind}"
    assert json.loads((out / RUN).read_text())["options"] == {"nbest": 3}
    assert sorted(path.name for path in out.iterdir()) == sorted(
        ["_conch", "mine", "part-mine.jsonl", shard.name]
    )
    assert [path.stem for path in (out / "_conch" / "done").iterdir()] == [shard.stem]


def test_a_cluster_that_does_not_answer_is_named() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and does not listen
        port = unused.getsockname()[1]
        with pytest.raises(BulkError, match=f"--ray 127.0.0.1:{port}: no Ray cluster answers"):
            ray_data.check_answers("127.0.0.1", port)


class DualError(RuntimeError, BulkError):
    """Of both classes, as Ray's `RayTaskError(BulkError)` is."""

    cause: BulkError


def test_what_a_worker_says_is_found_in_what_ray_makes_of_it() -> None:
    dual = DualError("ray::NodeServer.url()\nconch.wire.errors.BulkError: no room\nfor it")
    dual.cause = BulkError("no room\nfor it")
    assert message_of(dual) == "no room\nfor it"
    wrapped = RuntimeError("…\nconch.wire.errors.BulkError: no server for 3 s\n\nThe above")
    error = ValueError("ray::MapWorker")
    error.__cause__ = wrapped
    assert message_of(error) == "no server for 3 s"
    assert message_of(BulkError("full")) == "full"
    assert message_of(ValueError("other")) == "Ray: ValueError: other"
