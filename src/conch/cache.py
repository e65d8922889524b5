"""Files that are made once on a machine, by the first process that needs them, and kept."""

import fcntl
import hashlib
import json
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.families.family import user_folder
from conch.whole import MAKING, made_whole, making_of
from conch.wire.errors import ConfigError

logger = logging.getLogger(__name__)

Arrays = Mapping[str, NDArray[Any]]

_SIZES = "sizes.json"
_SUMS = "sums.json"
_LEFT_S = 86_400.0
"""Seconds after which nobody makes what was begun any more."""
_BROKEN = (AttributeError, EOFError, OSError, TypeError, ValueError)
"""Exceptions of numpy and json for files that are cut short, missing or something else."""


class NoCacheError(ConfigError):
    """No folder can keep what is made."""


def digest_of(path: Path, *others: str) -> str:
    """Return 16 hexadecimal digits that change with a file and with other texts."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    for text in others:
        digest.update(b"\0" + text.encode())
    return digest.hexdigest()[:16]


@contextmanager
def locked(path: Path, say: Callable[[str], None], what: str) -> Iterator[None]:
    """Let one program at a time run the block; the lock ends with the process that holds it.

    `path` is the file of the lock, which stays: another program may wait for it. If this program
    has to wait, `say` is called with a text on `what` the other one makes. Raise an OSError if the
    file cannot be written.
    """
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another program makes {what}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cached(
    name: str,
    what: str,
    make: Callable[[Path], None],
    is_whole: Callable[[Path], bool] = Path.exists,
) -> Path:
    """Return a file or folder of the user's cache, made at first use, by one process.

    It is kept in `$XDG_CACHE_HOME/conch` (`~/.cache/conch`) or, if that is not writable, in a
    private folder next to the temporary files. Its `name` must change with what it is made from;
    errors call it `what`. `make` writes it to a path; an `OSError` means that the path is unusable.
    It is made again unless `is_whole`. Raise a NoCacheError if no folder can keep it.
    """
    shared = Path(tempfile.gettempdir())
    reasons = []
    for folder in (user_folder("XDG_CACHE_HOME", ".cache"), shared / f"conch-{os.getuid()}"):
        path = folder / name
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.parent == shared:
                _check_private(folder)
            if not is_whole(path):
                with locked(folder / f".{name}.lock", logger.info, what):
                    if not is_whole(path):
                        _remove_left(folder)
                        with made_whole(path) as made:
                            make(made)
            if path.stat().st_uid != os.getuid():
                raise PermissionError(f"{path} belongs to another user")
        except OSError as error:
            reasons.append(str(error))
        else:
            return path
    raise NoCacheError(
        f"{what} cannot be kept: {'; '.join(reasons)}; set XDG_CACHE_HOME to a folder of your own"
    )


def cached_folder(name: str, what: str, make: Callable[[Path], None]) -> Path:
    """Return a folder of the user's cache, as `cached` does, made again if a file is damaged."""

    def write(folder: Path) -> None:
        # A warning, as what is below that level does not reach the server's log.
        logger.warning("making %s as %s, once: it takes some seconds", what, name)
        make(folder)
        sums = {path.name: digest_of(path) for path in folder.iterdir()}
        (folder / _SUMS).write_text(json.dumps(sums))

    def is_whole(folder: Path) -> bool:
        if not folder.exists():
            return False
        try:
            sums = json.loads((folder / _SUMS).read_text())
            damaged = [key for key, digest in sums.items() if digest_of(folder / key) != digest]
        except _BROKEN as error:
            damaged = [str(error)]
        if damaged:
            logger.warning("%s in %s is damaged: %s", what, folder, ", ".join(damaged))
        return not damaged

    return cached(name, what, write, is_whole)


def cached_arrays(name: str, what: str, make: Callable[[], Arrays]) -> Arrays:
    """Return arrays by name, read-only: mapped from the user's cache, so that processes share them.

    They are made at first use, and again if they are broken. If nothing can be kept, they are in
    the memory of this process. `name` and `what` are those of `cached`.
    """
    made: Arrays | None = None

    def write(folder: Path) -> None:
        nonlocal made
        if made is None:
            made = make()
        folder.mkdir(mode=0o700)
        for key, array in made.items():
            np.save(folder / f"{key}.npy", array, allow_pickle=False)
        sizes = {key: array.nbytes for key, array in made.items()}
        (folder / _SIZES).write_text(json.dumps(sizes))

    def is_whole(folder: Path) -> bool:
        if not folder.exists():
            return False
        try:
            _mapped(folder)
        except _BROKEN as error:
            logger.warning("%s in %s are broken, and are made again: %s", what, folder, error)
            return False
        return True

    try:
        return _mapped(cached(name, what, write, is_whole))
    except (NoCacheError, *_BROKEN) as error:
        logger.warning("%s; each process has its own", error)
    return make() if made is None else made


def _mapped(folder: Path) -> Arrays:
    """Return the arrays of a folder of `cached_arrays`, or raise one of `_BROKEN`."""
    sizes = json.loads((folder / _SIZES).read_text())
    arrays = {key: np.load(folder / f"{key}.npy", mmap_mode="r") for key in sizes}
    if any(arrays[key].nbytes != size for key, size in sizes.items()):
        raise ValueError("an array has another size")
    # As plain arrays: each index into a memmap itself takes a microsecond of Python.
    return {key: np.asarray(array) for key, array in arrays.items()}


def _remove_left(folder: Path) -> None:
    """Remove what killed processes have begun, but nothing that may still be made."""
    for left in folder.glob(f"{MAKING}*"):
        if time.time() - left.stat().st_mtime > _LEFT_S:
            shutil.rmtree(left, ignore_errors=True)


def _check_private(folder: Path) -> None:
    """Raise a PermissionError for a folder in which another user could replace our files."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise PermissionError(f"{folder} is no folder")
    if status.st_uid != os.getuid():
        raise PermissionError(f"{folder} is uid {status.st_uid}'s, this is uid {os.getuid()}")
    if (mode := stat.S_IMODE(status.st_mode)) & 0o077:
        raise PermissionError(f"{folder} is open to others: it has mode 0{mode:o}, not 0700")


@contextmanager
def alone_with(target: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Let one program at a time make a folder, and remove what a killed one has left.

    `say` is called with a text while another program makes it.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target.parent / f".{target.name}.lock", say, str(target)):
            for path in target.parent.glob(f"{making_of(target)}*"):
                shutil.rmtree(path, ignore_errors=True)
            yield
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error}") from None
