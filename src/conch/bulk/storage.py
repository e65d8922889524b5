"""Local paths and addresses of fsspec (s3://…): files that appear whole or not at all."""

import contextlib
import errno
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conch.whole import MAKING, made_whole
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


class UnfitNameError(BulkError):
    """A file cannot have its name, on this file system or beside the others."""


def without_secrets(text: str) -> str:
    """Return a text with the URLs in it, but without their passwords and queries."""
    return _URL.sub(r"\1\2", text)


def address_of(name: str) -> str:
    """Return an address that does not depend on the working directory: a URL or absolute path."""
    return name if "://" in name else str(Path(name).absolute())


def file_system(address: str) -> tuple[Any, str]:
    """Return the fsspec file system of an address, and the path in it.

    Raise a BulkError if the scheme is unknown, or its package is missing.
    """
    from fsspec.core import url_to_fs

    try:
        found, path = url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise BulkError(f"{address}: {error}") from None
    return found, str(path)


def full_address(like: str, path: str) -> str:
    """Return the address of a path on the file system of the address `like`."""
    scheme, separator, _ = like.partition("://")
    if not separator or "://" in path:
        return path
    return f"{scheme}://{path.lstrip('/')}"


def reason(error: Exception) -> str:
    """Return the message of a file system's exception, in one line."""
    if isinstance(error, FileNotFoundError) and "bucket" not in str(error).lower():
        return "no such file"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())


@contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Turn every exception of a file system into a BulkError that begins with `what`."""
    try:
        yield
    except BulkError:
        raise
    # The packages behind fsspec (botocore, paramiko, ...) share no base of their exceptions.
    except Exception as error:
        is_of_name = "\0" in what or getattr(error, "errno", None) in _OF_NAMES
        raise (UnfitNameError if is_of_name else BulkError)(f"{what}: {reason(error)}") from error


class Output:
    """The output folder, local or in any file system of fsspec.

    Its methods raise BulkError where the file system fails.
    """

    def __init__(self, address: str) -> None:
        """Find the file system of an absolute path or a URL."""
        self.address = address.rstrip("/") or "/"
        self._system, self._root = file_system(self.address)
        protocol = self._system.protocol
        self._protocols = {protocol} if isinstance(protocol, str) else set(protocol)

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine, or mounted on it."""
        return "file" in self._protocols

    @property
    def local_path(self) -> Path:
        return Path(self._root)

    def path(self, name: str) -> str:
        """Return the address of a file in the folder, for messages."""
        return f"{self.address}/{name}"

    def make(self) -> None:
        """Create the folder."""
        with storage_errors(f"cannot write to --out {self.address}"):
            self._system.makedirs(f"{self._root}/{META}", exist_ok=True)

    def names(self, folder: str = "") -> list[str]:
        """Return the sorted names of the files directly in a folder; none if it is missing."""
        with storage_errors(f"cannot read {self.path(folder)}"):
            self._system.invalidate_cache()
            try:
                found = self._system.ls(f"{self._root}/{folder}".rstrip("/"), detail=False)
            except FileNotFoundError:
                return []
        leaves = [str(path).rstrip("/").rpartition("/")[2] for path in found]
        return sorted(leaf for leaf in leaves if leaf and MAKING not in leaf)

    def exists(self, name: str) -> bool:
        with storage_errors(f"cannot read {self.path(name)}"):
            self._system.invalidate_cache()
            return bool(self._system.exists(f"{self._root}/{name}"))

    def read(self, name: str) -> bytes:
        """Return a file's content, or raise a FileNotFoundError."""
        try:
            with storage_errors(f"cannot read {self.path(name)}"):
                return bytes(self._system.cat_file(f"{self._root}/{name}"))
        except BulkError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise error.__cause__ from None
            raise

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole: no reader sees a part of it, whatever is killed meanwhile."""
        path = f"{self._root}/{name}"
        with storage_errors(f"cannot write {self.path(name)}"):
            if self.is_local:
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
        if self.is_local:
            for pattern in (f"{MAKING}*", f"{META}/**/{MAKING}*"):
                for path in self.local_path.glob(pattern):
                    shutil.rmtree(path, ignore_errors=True)
