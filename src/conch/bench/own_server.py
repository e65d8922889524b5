"""A server for one benchmark, with its memory sampled."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conch.bench.memory import MemorySampler
from conch.launcher import ServerConfig, TritonServer
from conch.launcher.repositories import shipped_repositories


@contextmanager
def own_server(*model_repositories: Path, whisper: str = "") -> Iterator[tuple[str, MemorySampler]]:
    """Start a server; yield its address and its memory.

    Args:
        model_repositories: folders of models; without one, those of Conch.
        whisper: name or folder of a Whisper; empty for the one that the components' configs name.

    Raises:
        ConfigError: that Whisper is not here, or not whole.
        ServerError: the server cannot be started.
    """
    print("starting a server", file=sys.stderr)
    config = ServerConfig(
        model_repositories=model_repositories or shipped_repositories(),
        whisper=whisper,
        log_level="warning",
    )
    # Only the server descends from this process, so the peak includes loading.
    with (
        MemorySampler(os.getpid(), with_root=False) as memory,
        TritonServer(config) as server,
        server.healing(),
    ):
        yield server.http_url, memory
