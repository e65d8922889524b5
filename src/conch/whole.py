"""Files and folders that appear whole or not at all, however the program ends; locks of files."""

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import IO

MAKING = ".making-"
"""Beginning of the name of a folder that a killed program leaves."""


def making_of(target: Path) -> str:
    """Return the beginning of the names of MAKING folders for one target."""
    return f"{MAKING}{zlib.crc32(os.fsencode(target.name)):08x}-"


@contextmanager
def made_whole(target: Path, *, sync: bool = True) -> Iterator[Path]:
    """Yield a path; the file or folder that is made there takes the place of `target` at the end.

    It is in a folder that only this user can read, on the same disk, for other temporary files too.
    With `sync` what is made survives a loss of power. After an exception nothing is left of it, and
    `target` is as it was. An OSError says that it cannot be written; no file replaces a folder.
    """
    with TemporaryDirectory(
        dir=target.parent, prefix=making_of(target), ignore_cleanup_errors=True
    ) as staging:
        made = Path(staging, target.name)
        yield made
        if sync:
            _sync(made)
            for path in made.rglob("*") if made.is_dir() else ():
                _sync(path)
        if made.is_dir() and target.exists():
            # The system lets a folder replace none that holds files.
            target.replace(Path(mkdtemp(dir=staging), "before"))
        made.replace(target)
        if sync:
            _sync(target.parent)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all; its folder exists."""
    with made_whole(path) as made:
        made.touch(0o600)
        made.write_bytes(data)


def _sync(path: Path) -> None:
    if path.exists():  # a link may lead nowhere
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_whole(path: Path, text: str) -> None:
    """Write a text in place of a file, as `whole_file` does, or raise an OSError.

    Bytes of file names that are no UTF-8 come back as they were.
    """
    with whole_file(path) as file:
        file.write(text.encode("utf-8", "surrogateescape"))


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that takes the place of another; after an exception that one stays as it was.

    What is no plain file, such as /dev/stdout, is written as it is. An OSError says that it cannot
    be written.
    """
    target = path.resolve()
    is_plain = target.is_file() or not target.exists()
    with (
        made_whole(target, sync=False) if is_plain else nullcontext(target) as made,
        made.open("wb") as file,
    ):
        yield file


def flocked(path: Path) -> IO[bytes]:
    """Lock a local file or raise a BlockingIOError; open it unbuffered, to read and to append."""
    import fcntl  # a client on a system without it locks nothing

    file = path.open("a+b", buffering=0)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file
