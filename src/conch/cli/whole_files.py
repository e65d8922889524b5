"""Write a file whole or not at all."""

from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a text in place of a file; if that fails, the file stays as it was.

    Bytes of file names that are no UTF-8 come back as they were. What is no plain file, such as
    /dev/stdout, is written as it is.

    Raises:
        OSError: it cannot be written.
    """
    data = text.encode("utf-8", "surrogateescape")
    target = path.resolve()
    if target.exists() and not target.is_file():
        target.write_bytes(data)
        return
    partial = target.with_name(f".{target.name}.part")
    try:
        partial.write_bytes(data)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
