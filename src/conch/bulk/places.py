"""Local paths and addresses of fsspec (s3://…), and the errors of their file systems."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conch.wire.errors import BulkError


def address_of(name: str) -> str:
    """Return an address that does not depend on the working directory: a URL or absolute path."""
    return name if "://" in name else str(Path(name).absolute())


def file_system(address: str) -> tuple[Any, str]:
    """Return the fsspec file system of an address, and the path in it.

    Raises:
        BulkError: the scheme is unknown, or its package is missing.
    """
    from fsspec.core import url_to_fs

    try:
        found, path = url_to_fs(address)
    except ImportError as error:
        raise BulkError(f"{address}: {error}") from None
    except ValueError as error:
        raise BulkError(f"{address}: {error}") from None
    return found, str(path)


def full_address(like: str, path: str) -> str:
    """Return the address of a path that the file system of another address has told."""
    scheme, separator, _ = like.partition("://")
    if not separator:
        return path
    return path if "://" in path else f"{scheme}://{path.lstrip('/')}"


def reason(error: Exception) -> str:
    """Return what an exception of a file system says, in one line."""
    if isinstance(error, FileNotFoundError) and "bucket" not in str(error).lower():
        return "no such file"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turn whatever a file system raises in the block into a BulkError that names the place.

    Args:
        what: Beginning of the message: `cannot read s3://…`.
    """
    try:
        yield
    except BulkError:
        raise
    # The packages behind fsspec (botocore, paramiko, ...) share no base of their exceptions.
    except Exception as error:
        raise BulkError(f"{what}: {reason(error)}") from error
