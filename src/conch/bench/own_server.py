"""A server that is started for a benchmark, with its memory watched."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conch.bench.memory import MemorySampler
from conch.launcher import ServerConfig, TritonServer
from conch.launcher.repositories import shipped_repositories


@contextmanager
def own_server(*model_repositories: Path) -> Iterator[tuple[str, MemorySampler]]:
    """Yield the address of a server that is started for the benchmark.

    Args:
        model_repositories: folders of models; without one, those that Conch comes with.

    Raises:
        ServerError: it cannot be started.
    """
    print("starting a server", file=sys.stderr)
    config = ServerConfig(
        model_repositories=model_repositories or shipped_repositories(), log_level="warning"
    )
    # The descendants of this process are the server's alone, so that loading is seen as well.
    with (
        MemorySampler(os.getpid(), with_root=False) as memory,
        TritonServer(config) as server,
    ):
        yield server.http_url, memory
