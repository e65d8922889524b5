"""The decoding graph that comes with Conch, packed as long as nobody uses it."""

import hashlib
import lzma
import os
import shutil
import stat
import tempfile
from pathlib import Path

from conch.models.ctc import WEIGHTS
from conch.wire.errors import ConfigError

PACKED = WEIGHTS / "ctc-en.fst.xz"


def unpacked_graph(packed: Path = PACKED) -> Path:
    """Return the graph as a file that can be mapped into memory, unpacked by the first who asks.

    It is kept in `$XDG_CACHE_HOME/conch` (`~/.cache/conch`). Where that cannot be written to, it is
    kept in a folder of this user alone, beside everybody's temporary files.

    Raises:
        ConfigError: the package holds no graph, or there is no place for it.
    """
    if not packed.is_file():
        raise ConfigError(f"the decoding graph {packed} does not exist: make one by `conch graph`")
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()[:16]
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    shared = Path(tempfile.gettempdir())
    reasons = []
    for folder in (home / "conch", shared / f"conch-{os.getuid()}"):
        path = folder / f"ctc-en-{digest}.fst"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.parent == shared:
                _check_private(folder)
            if not path.is_file():
                _unpack(packed, path)
            if path.stat().st_uid != os.getuid():
                raise PermissionError(f"{path} is somebody else's")
        except OSError as error:
            reasons.append(str(error))
        else:
            return path
    raise ConfigError(
        f"the decoding graph cannot be unpacked: {'; '.join(reasons)}; "
        "set XDG_CACHE_HOME to a folder of your own"
    )


def _check_private(folder: Path) -> None:
    """Refuse a folder in which somebody else could put another file in place of the graph.

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


def _unpack(packed: Path, path: Path) -> None:
    # Under another name first: two servers may start at once.
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            with lzma.open(packed) as source:
                shutil.copyfileobj(source, file, 1 << 20)
            file.flush()
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
