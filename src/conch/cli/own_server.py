"""A server for one command: the user's by URL, or one that starts and ends with the command."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from conch.families import rescorers

if TYPE_CHECKING:
    from conch.launcher import ServerConfig

NO_WEIGHTS: Mapping[str, str] = MappingProxyType({})


@contextmanager
def server_url(
    url: str | None, models: Iterable[str], weights: Mapping[str, str] = NO_WEIGHTS
) -> Iterator[str]:
    """Yield `url`; without one start a server, yield its gRPC URL, and end it.

    Args:
        weights: names or folders of the weights of a new server, by kind, where they are no
            defaults.

    Raises:
        ConfigError: such weights are missing or incomplete.
        ServerError: no server can be started.
    """
    if url is not None:
        yield url
        return
    from conch.launcher import TritonServer

    config = config_for(models, weights)
    print("conch: no --url given: starting a server for this", file=sys.stderr)
    begun = perf_counter()
    with TritonServer(config) as server:
        print(f"conch: server ready after {perf_counter() - begun:.1f} s", file=sys.stderr)
        # gRPC notices when this command is interrupted; HTTP does not.
        try:
            with server.healing():
                yield f"grpc://{server.grpc_url}"
        finally:
            # No request is left, and Triton takes 4 s to unload the models.
            server.kill()


def config_for(models: Iterable[str], weights: Mapping[str, str]) -> "ServerConfig":
    """Return the settings of a server for one command, with the weights found.

    The n-gram rescorer takes the place of the neural one where that has no weights.

    Raises:
        ConfigError: chosen weights are missing or incomplete.
    """
    from conch.catalogue.kinds import KINDS
    from conch.catalogue.places import find
    from conch.launcher import ServerConfig, shipped_repositories, without_weights

    found = {name: str(find(KINDS[name], asked)) for name, asked in weights.items()}
    named = dict.fromkeys(models)
    lacking = without_weights(shipped_repositories(), "")
    for model in {*lacking} & {*named} & {*rescorers().values()}:
        print(f"conch: {lacking[model]}; rescorer takes its place", file=sys.stderr)
        del named[model]
        named["rescorer"] = None
    return ServerConfig(models=[*named], weights=found)
