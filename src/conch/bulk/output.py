"""The output folder: files that appear whole or not at all, locally or in an object store."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conch.bulk.places import file_system, told

META = "_conch"
"""Folder of what a run keeps for itself. Readers of shards pass over names with `_` in front."""
RUN = f"{META}/run.json"
LOCK = f"{META}/lock.json"
WORK = f"{META}/work"
"""Folder of the finished pieces of recordings that are not finished."""

DONE = f"{META}/done"
"""Folder of what is told of each shard, so that a later run need not read the shards."""
FILES = "_files"
"""Folder of the files beside the shards."""

PUTS_WHOLE = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "memory", "oss"})
"""File systems that show an object only when all of it is there."""
TEMPORARY = ".tmp-"


class Output:
    """A folder, local or in any file system of fsspec. It can be pickled."""

    def __init__(self, address: str) -> None:
        """Open nothing yet.

        Args:
            address: Absolute path or URL of the folder.
        """
        self.address = address.rstrip("/") or "/"
        self._opened: tuple[Any, str] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Output, (self.address,)

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine, or mounted on it."""
        return "file" in self._protocols

    def path(self, name: str) -> str:
        """Return the address of a file in the folder, for people."""
        return f"{self.address}/{name}"

    def make(self) -> None:
        """Create the folder.

        Raises:
            BulkError: it cannot be created or written.
        """
        with told(f"cannot write to --out {self.address}"):
            system, root = self._system
            system.makedirs(f"{root}/{META}", exist_ok=True)

    def names(self, folder: str = "") -> list[str]:
        """Return the names of the files right in a folder of it, sorted; none if it is missing.

        Raises:
            BulkError: it cannot be read.
        """
        system, root = self._system
        where = f"{root}/{folder}".rstrip("/")
        with told(f"cannot read {self.path(folder)}"):
            system.invalidate_cache()
            try:
                found = system.ls(where, detail=False)
            except FileNotFoundError:
                return []
        leaves = [str(path).rstrip("/").rpartition("/")[2] for path in found]
        return sorted(leaf for leaf in leaves if leaf and TEMPORARY not in leaf)

    def exists(self, name: str) -> bool:
        """Return whether a file is there."""
        system, root = self._system
        with told(f"cannot read {self.path(name)}"):
            system.invalidate_cache()
            return bool(system.exists(f"{root}/{name}"))

    def read(self, name: str) -> bytes:
        """Return a file's content.

        Raises:
            FileNotFoundError: it is not there.
            BulkError: it cannot be read.
        """
        system, root = self._system
        try:
            with told(f"cannot read {self.path(name)}"):
                return bytes(system.cat_file(f"{root}/{name}"))
        except Exception as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise error.__cause__ from None
            raise

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole: nobody sees a part of it, whatever is killed meanwhile.

        Raises:
            BulkError: it cannot be written; then there is nothing.
        """
        with told(f"cannot write {self.path(name)}"):
            system, root = self._system
            if self.is_local:
                _write_local(Path(root, name), content)
            elif self._protocols & PUTS_WHOLE:
                system.pipe_file(f"{root}/{name}", content)
            else:
                folder, _, leaf = f"{root}/{name}".rpartition("/")
                system.makedirs(folder, exist_ok=True)
                temporary = f"{folder}/{TEMPORARY}{secrets.token_hex(8)}-{leaf}"
                system.pipe_file(temporary, content)
                system.mv(temporary, f"{root}/{name}")

    def write_new(self, name: str, content: bytes) -> bool:
        """Write a file of an object store unless it is there; return whether it was written."""
        system, root = self._system
        with told(f"cannot write {self.path(name)}"):
            if self.exists(name):
                return False
            try:
                system.pipe_file(f"{root}/{name}", content, mode="create")
            except FileExistsError:
                return False
            except (NotImplementedError, TypeError):  # a store that knows no condition
                system.pipe_file(f"{root}/{name}", content)
        return True

    def remove(self, name: str) -> None:
        """Remove a file or a folder; do nothing if it is missing.

        Raises:
            BulkError: it cannot be removed.
        """
        system, root = self._system
        with told(f"cannot remove {self.path(name)}"), contextlib.suppress(FileNotFoundError):
            system.rm(f"{root}/{name}", recursive=True)

    def remove_leftovers(self) -> None:
        """Remove what writers that were killed have left. Nobody may be writing."""
        if self.is_local:
            root = Path(self._system[1])
            for path in (*root.glob(f"{TEMPORARY}*"), *root.glob(f"{META}/**/{TEMPORARY}*")):
                path.unlink(missing_ok=True)

    @property
    def local_path(self) -> Path:
        """Path of the folder, if it is local."""
        return Path(self._system[1])

    @property
    def _system(self) -> tuple[Any, str]:
        if self._opened is None:
            self._opened = file_system(self.address)
        return self._opened

    @property
    def _protocols(self) -> set[str]:
        found = self._system[0].protocol
        return {found} if isinstance(found, str) else set(found)


def _write_local(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        with _opened_folder(path.parent) as folder:
            os.fsync(folder)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _opened_folder(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
