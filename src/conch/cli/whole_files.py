"""Write a file whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from conch.bulk import storage


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
    with storage.whole_file(target, sync=False) if is_plain else target.open("wb") as file:
        yield file
