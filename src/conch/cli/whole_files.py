"""Write a file as commands do: whole or not at all, but a device as it is."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO

from conch.whole import made_whole


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
