"""Let one program at a time make a folder of a model."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from conch.cache import locked
from conch.whole import making_of
from conch.wire.errors import ConfigError


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
