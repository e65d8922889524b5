"""Write a folder completely or not at all, however the program ends."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from conch.cache import locked
from conch.wire.errors import ConfigError


@contextmanager
def alone_with(target: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Let one program at a time make a folder, and remove what a killed one has left.

    `say` is called with a text while another program makes it.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target.parent / f".{target.name}.lock", say, str(target)):
            for path in target.parent.glob(f"{_prefix(target)}*"):
                shutil.rmtree(path, ignore_errors=True)
            yield
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error}") from None


@contextmanager
def made_whole(target: Path) -> Iterator[Path]:
    """Yield a new folder on the same disk; at the end its `made` takes the place of `target`.

    After an exception nothing of it is left, and `target` is as it was. Where several programs may
    make it, call it inside `alone_with`.
    """
    staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=_prefix(target)))
    try:
        made = staging / "made"
        made.mkdir()
        yield staging
        for path in made.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
        if target.exists():
            # A folder replaces no folder that holds files.
            target.replace(staging / "before")
        made.replace(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _prefix(target: Path) -> str:
    return f".making-{target.name}-"
