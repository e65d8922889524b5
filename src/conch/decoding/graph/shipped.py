"""The decoding graph that comes with Conch, packed as long as nobody uses it."""

import hashlib
import lzma
import os
import shutil
import tempfile
from pathlib import Path

from conch.models.ctc import WEIGHTS
from conch.wire.errors import ConfigError

PACKED = WEIGHTS / "ctc-en.fst.xz"


def unpacked_graph(packed: Path = PACKED) -> Path:
    """Return the graph as a file that can be mapped into memory, unpacked by the first who asks.

    It is kept in `$XDG_CACHE_HOME/conch` (`~/.cache/conch`), or in the folder for temporary files
    where that cannot be written to.

    Raises:
        ConfigError: the package holds no graph, or there is no room for it.
    """
    if not packed.is_file():
        raise ConfigError(f"the decoding graph {packed} does not exist: make one by `conch graph`")
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()[:16]
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    reasons = []
    for folder in (home / "conch", Path(tempfile.gettempdir()) / f"conch-{os.getuid()}"):
        path = folder / f"ctc-en-{digest}.fst"
        try:
            if not path.is_file():
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _unpack(packed, path)
            if path.stat().st_uid != os.getuid():
                raise PermissionError(f"{path} is somebody else's")
        except OSError as error:
            reasons.append(str(error))
        else:
            return path
    raise ConfigError(f"the decoding graph cannot be unpacked: {'; '.join(reasons)}")


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
