"""Files that only their owner can read."""

import os
from pathlib import Path


def write_private(path: Path, data: bytes) -> None:
    """Write a file with mode 0600 in one step, in place of what is there; its folder exists."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    new.replace(path)
