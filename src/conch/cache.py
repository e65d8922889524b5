"""Files that are made once on a machine, by the first process that needs them, and kept."""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from conch.wire.errors import ConfigError


def cached(name: str, what: str, make: Callable[[Path], None]) -> Path:
    """Return a file or folder of the user's cache, made by the first who asks for it.

    It is kept in `$XDG_CACHE_HOME/conch` (`~/.cache/conch`). Where that cannot be written to, it is
    kept in a folder of this user alone, beside everybody's temporary files.

    Args:
        name: of the file or folder. It must change with what it is made from.
        what: names it in errors.
        make: writes it to the path that it gets; `OSError` is taken for a place that will not do.

    Raises:
        ConfigError: there is no place for it.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    shared = Path(tempfile.gettempdir())
    reasons = []
    for folder in (home / "conch", shared / f"conch-{os.getuid()}"):
        path = folder / name
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.parent == shared:
                _check_private(folder)
            if not path.exists():
                _make(path, make)
            if path.stat().st_uid != os.getuid():
                raise PermissionError(f"{path} is somebody else's")
        except OSError as error:
            reasons.append(str(error))
        else:
            return path
    raise ConfigError(
        f"{what} cannot be kept: {'; '.join(reasons)}; set XDG_CACHE_HOME to a folder of your own"
    )


def _check_private(folder: Path) -> None:
    """Refuse a folder in which somebody else could put another file in place of ours.

    Raises:
        PermissionError: it is somebody else's, or others may enter it.
    """
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise PermissionError(f"{folder} is no folder")
    if found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is uid {found.st_uid}'s, this is uid {os.getuid()}")
    if (mode := stat.S_IMODE(found.st_mode)) & 0o077:
        raise PermissionError(f"{folder} is open to others: it has mode 0{mode:o}, not 0700")


def _make(path: Path, make: Callable[[Path], None]) -> None:
    # In a folder of its own first: two servers may start at once, and one may be killed.
    staging = Path(tempfile.mkdtemp(dir=path.parent, prefix=".making-"))
    try:
        make(staging / path.name)
        try:
            os.replace(staging / path.name, path)
        except OSError:
            # A folder replaces no folder that holds files: another process was faster.
            if not path.is_dir():
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
