"""Local paths and addresses of fsspec (s3://…): files that appear whole, and the lock of an output.

One run at a time writes to an output. The kernel locks a local file (flock), and releases it when
its holder dies. An object store has no such lock. There the holder counts up in a file, and a run
that sees the count stand still for STILL_S takes the lock over. Clocks of two machines are never
compared.
"""

import contextlib
import errno
import itertools
import json
import os
import re
import secrets
import shutil
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conch.whole import MAKING, flocked, made_whole
from conch.wire.errors import BulkError

META = "_conch"
"""Folder of a run's own files. Readers of shards skip names that begin with `_`."""
RUN = f"{META}/run.json"
LOCK = f"{META}/lock.json"
WORK = f"{META}/work"
"""Folder of the finished pieces of unfinished recordings."""
DONE = f"{META}/done"
"""Folder of the outcome of each shard, so that a later run does not read the shards."""
FILES = "_files"
"""Folder of the files of --format."""

PUTS_WHOLE = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "memory", "oss"})
"""File systems that show an object only when it is complete."""
_OF_NAMES = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EILSEQ}
_URL = re.compile(r"([\w+.-]+://)(?:[^/\s@]*@)?([^\s?]*)(?:\?\S*)?")
BEAT_S = 5.0
"""Seconds between two heartbeats in an object store."""
STILL_S = 20.0
"""Seconds without a heartbeat after which a run counts as dead."""


class UnfitNameError(BulkError):
    """A file cannot have this name, on this file system or beside the other files."""


def without_secrets(text: str) -> str:
    """Return a text with the URLs in it, but without their passwords and queries."""
    return _URL.sub(r"\1\2", text)


def address_of(name: str) -> str:
    """Return an address that does not depend on the working directory: a URL or absolute path."""
    return name if "://" in name else str(Path(name).absolute())


def file_system(address: str) -> tuple[Any, str]:
    """Return the fsspec file system of an address, and the path in it, or raise a BulkError."""
    from fsspec.core import url_to_fs

    try:
        system, path = url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise BulkError(f"{address}: {error}") from None
    return system, str(path)


def full_address(like: str, path: str) -> str:
    """Return the address of a path on the file system of the address `like`."""
    scheme, separator, _ = like.partition("://")
    if not separator or "://" in path:
        return path
    return f"{scheme}://{path.lstrip('/')}"


def reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and "bucket" not in str(error).lower():
        return "no such file"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())


@contextmanager
def storage_errors(what: str, *passing: type[Exception]) -> Iterator[None]:
    """Turn other exceptions of a file system into a BulkError that begins with `what`."""
    try:
        yield
    # The packages behind fsspec (botocore, paramiko, ...) share no base of their exceptions.
    except Exception as error:
        if isinstance(error, (BulkError, *passing)):
            raise
        is_of_name = "\0" in what or getattr(error, "errno", None) in _OF_NAMES
        raise (UnfitNameError if is_of_name else BulkError)(f"{what}: {reason(error)}") from error


class Output:
    """The output folder, in any file system of fsspec; where that fails, a BulkError is raised."""

    def __init__(self, address: str) -> None:
        """Find the file system of an absolute path or a URL."""
        self.address = address.rstrip("/") or "/"
        self._system, self._root = file_system(self.address)
        protocol = self._system.protocol
        self._protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        self.local_path = Path(self._root) if "file" in self._protocols else None
        """The folder, if it is of this machine or mounted on it."""

    def path(self, name: str) -> str:
        return f"{self.address}/{name}"

    def make(self) -> None:
        with storage_errors(f"cannot write to --out {self.address}"):
            self._system.makedirs(f"{self._root}/{META}", exist_ok=True)

    def names(self, folder: str = "") -> list[str]:
        """Return the sorted names of the files directly in a folder; none if it is missing."""
        paths: list[str] = []
        errors = storage_errors(f"cannot read {self.path(folder)}")
        with errors, contextlib.suppress(FileNotFoundError):
            self._system.invalidate_cache()
            paths = self._system.ls(f"{self._root}/{folder}".rstrip("/"), detail=False)
        leaves = [str(path).rstrip("/").rpartition("/")[2] for path in paths]
        return sorted(leaf for leaf in leaves if leaf and MAKING not in leaf)

    def exists(self, name: str) -> bool:
        with storage_errors(f"cannot read {self.path(name)}"):
            self._system.invalidate_cache()
            return bool(self._system.exists(f"{self._root}/{name}"))

    def read(self, name: str) -> bytes:
        """Return a file's content, or raise a FileNotFoundError."""
        with storage_errors(f"cannot read {self.path(name)}", FileNotFoundError):
            return bytes(self._system.cat_file(f"{self._root}/{name}"))

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole: no reader sees a part of it, whatever is killed meanwhile."""
        path = f"{self._root}/{name}"
        with storage_errors(f"cannot write {self.path(name)}"):
            if self.local_path:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                with made_whole(Path(path)) as made:
                    made.write_bytes(content)
            elif self._protocols & PUTS_WHOLE:
                self._system.pipe_file(path, content)
            else:
                folder, _, leaf = path.rpartition("/")
                self._system.makedirs(folder, exist_ok=True)
                temporary = f"{folder}/{MAKING}{secrets.token_hex(8)}-{leaf}"
                self._system.pipe_file(temporary, content)
                self._system.mv(temporary, path)

    def write_new(self, name: str, content: bytes) -> bool:
        """Write a file of an object store unless it exists; return whether it was written."""
        path = f"{self._root}/{name}"
        with storage_errors(f"cannot write {self.path(name)}"):
            if self.exists(name):
                return False
            try:
                self._system.pipe_file(path, content, mode="create")
            except FileExistsError:
                return False
            except (NotImplementedError, TypeError):  # a store without conditional writes
                self._system.pipe_file(path, content)
        return True

    def remove(self, name: str) -> None:
        """Remove a file or a folder; do nothing if it is missing."""
        errors = storage_errors(f"cannot remove {self.path(name)}")
        with errors, contextlib.suppress(FileNotFoundError):
            self._system.rm(f"{self._root}/{name}", recursive=True)

    def remove_leftovers(self) -> None:
        """Remove what writers have left that were killed. Nothing may be writing."""
        if self.local_path:
            for pattern in (f"{MAKING}*", f"{META}/**/{MAKING}*"):
                for path in self.local_path.glob(pattern):
                    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def locked(output: Output, *, beat_s: float = BEAT_S, still_s: float = STILL_S) -> Iterator[str]:
    """Hold the right to write to an output, or raise a BulkError; yield the id of this run.

    It beats every `beat_s` seconds. Another run's lock is taken over when that has been still for
    `still_s`.
    """
    run = secrets.token_hex(8)
    local = output.local_path
    with _local(output, local, run) if local else _remote(output, run, beat_s, still_s):
        yield run


def require(output: Output, run: str) -> None:
    """Raise a BulkError if a run has lost the lock to another; workers check before they write."""
    if _holder(output).get("run") != run:
        raise BulkError(
            f"--out {output.address} is no longer locked by this run; it writes nothing more there"
        )


@contextmanager
def _local(output: Output, folder: Path, run: str) -> Iterator[None]:
    path = folder / LOCK
    with storage_errors(f"cannot lock {output.path(LOCK)}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = flocked(path)
        except BlockingIOError:
            raise _taken(output) from None
        file.truncate(0)
        file.write(_content(run, 1))
    with file:
        try:
            yield
        finally:
            # The file stays: another run may have it open.
            file.truncate(0)


@contextmanager
def _remote(output: Output, run: str, beat_s: float, still_s: float) -> Iterator[None]:
    beats = itertools.count(1)
    done = threading.Event()

    def beat() -> None:
        while not done.wait(beat_s):
            with contextlib.suppress(BulkError):  # the next beat may pass
                if _holder(output).get("run", run) != run:
                    return  # taken over; `require` stops the workers
                output.write(LOCK, _content(run, next(beats)))

    if not output.write_new(LOCK, _content(run, next(beats))):
        holder = _holder(output)
        deadline = time.monotonic() + still_s
        while holder and time.monotonic() < deadline:
            done.wait(beat_s / 2)
            if _holder(output) != holder:
                raise _taken(output)
        output.write(LOCK, _content(run, next(beats)))
    # A run that took it at the same time has overwritten this by now.
    done.wait(min(1.0, beat_s))
    if _holder(output).get("run") != run:
        raise _taken(output)
    thread = threading.Thread(target=beat, name="conch-bulk-lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if _holder(output).get("run") == run:
            output.remove(LOCK)


def _taken(output: Output) -> BulkError:
    holder = _holder(output)
    who = f"process {holder.get('pid', '?')} on {holder.get('host', '?')}"
    return BulkError(
        f"--out {output.address}: another bulk run writes there ({who}): wait for its end, or use "
        "another folder"
    )


def _content(run: str, beat: int) -> bytes:
    fields = {"run": run, "host": socket.gethostname(), "pid": os.getpid(), "beat": beat}
    return json.dumps(fields).encode() + b"\n"


def _holder(output: Output) -> Mapping[str, Any]:
    """Return the content of the lock; empty if no run holds it, or its holder is writing it."""
    try:
        content = json.loads(output.read(LOCK) or b"{}")
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
