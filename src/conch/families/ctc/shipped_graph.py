"""The decoding graph that comes with Conch, packed until its first use."""

import lzma
import shutil
from pathlib import Path

from conch.cache import cached, digest_of
from conch.decoding.graph.fst_arrays import open_fst, write_fst
from conch.families.ctc import WEIGHTS
from conch.wire.errors import ConfigError

PACKED = WEIGHTS / "ctc-en.fst.xz"
_VERSION = 2
"""Version of the unpacked file: it changes with the format of `write_fst`."""


def unpacked_graph(packed: Path = PACKED) -> Path:
    """Return the graph as a file that can be mapped; the first process that asks unpacks it."""
    if not packed.is_file():
        raise ConfigError(f"the decoding graph {packed} does not exist: make one by `conch graph`")

    def unpack(path: Path) -> None:
        plain = path.with_name("plain.fst")
        with lzma.open(packed) as source, plain.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
        # The package has the symbols in front: states and arcs behind them cannot be mapped.
        graph = open_fst(plain)
        write_fst(path, graph.arrays(), symbols=graph.symbols)
        plain.unlink()

    name = f"ctc-en-{digest_of(packed)}-{_VERSION}.fst"
    return cached(name, "the unpacked decoding graph", unpack)
