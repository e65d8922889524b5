"""A server for one command: the user's by URL, or one that starts and ends with the command."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter


@contextmanager
def server_url(url: str | None, models: Iterable[str], whisper: str = "") -> Iterator[str]:
    """Yield `url`; without one start a server, yield its gRPC URL, and end it.

    Args:
        whisper: name or folder of the Whisper of a new server; empty for the default.

    Raises:
        ConfigError: the Whisper is missing or incomplete.
        ServerError: no server can be started.
    """
    if url is not None:
        yield url
        return
    from conch.catalogue.places import find_whisper
    from conch.launcher import ServerConfig, TritonServer

    # A wrong name fails before a message about a server.
    whisper = str(find_whisper(whisper)) if whisper else ""
    print("conch: no --url given: starting a server for this", file=sys.stderr)
    begun = perf_counter()
    with TritonServer(ServerConfig(models=[*servable(models)], whisper=whisper)) as server:
        print(f"conch: server ready after {perf_counter() - begun:.1f} s", file=sys.stderr)
        # gRPC notices when this command is interrupted; HTTP does not.
        try:
            with server.healing():
                yield f"grpc://{server.grpc_url}"
        finally:
            # No request is left, and Triton takes 4 s to unload the models.
            server.kill()


def servable(models: Iterable[str]) -> Iterator[str]:
    """Yield the models, with the n-gram rescorer where the neural one has no weights."""
    from conch.launcher import shipped_repositories, without_weights

    lacking = without_weights(shipped_repositories(), "")
    for model in models:
        if model in lacking:
            print(f"conch: {lacking[model]}; rescorer takes its place", file=sys.stderr)
        yield "rescorer" if model in lacking else model
