"""A server for one command: the user's by URL, or one that starts and ends with the command."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from conch.families import likening, rescorers
from conch.wire.entry_points import ENTRY_POINTS, SYNTHESIS
from conch.wire.errors import ConfigError
from conch.wire.needs import components_to_serve
from conch.wire.synthesis import SynthesisOptions
from conch.wire.voices import synthesizer_of

if TYPE_CHECKING:
    from conch.launcher import ServerConfig

NO_WEIGHTS: Mapping[str, str] = MappingProxyType({})


@contextmanager
def server_url(
    url: str | None,
    requests: Iterable[Mapping[str, Any]],
    weights: Mapping[str, str] = NO_WEIGHTS,
    *,
    live: bool = False,
    others: Iterable[str] = (),
) -> Iterator[str]:
    """Yield `url`; without one start a server, yield its gRPC URL, and end it.

    A new server answers such requests. It has the `weights` by kind, and `others` beyond `speech`
    and what the requests need. Raise a ConfigError if such weights are missing or incomplete, and a
    ServerError if no server can be started.
    """
    if url is not None:
        yield url
        return
    with _started(config_for(requests, weights, live=live, others=others)) as found:
        yield found


@contextmanager
def server_for_voice(
    url: str | None, options: SynthesisOptions, weights: Mapping[str, str] = NO_WEIGHTS
) -> Iterator[str]:
    """Yield `url`; without one start a server that speaks, yield its gRPC URL, and end it.

    Raise a ServerError if no server can be started.
    """
    if url is not None:
        yield url
        return
    from conch.launcher import ServerConfig

    synthesizer, more = synthesizer_of(options.voice), list[str]()
    if options.reference:
        # Whoever gives a recording to his own server answers for it.
        synthesizer, more = likening(), [likening().voice_style]
    config = ServerConfig(
        models=(*SYNTHESIS, *synthesizer.components, *more),
        weights=weights,
        voices_from_recordings=bool(options.reference),
    )
    with _started(config) as found:
        yield found


def _flag_for(model: str) -> str:
    """Return how a server for one command takes a model; empty if it is none."""
    from conch.catalogue.models import detect

    try:
        kind, folder, _ = detect(model)
    except ConfigError:
        return ""
    return f". For a server of this command alone: {kind.flag} {folder}"


@contextmanager
def _started(config: "ServerConfig") -> Iterator[str]:
    from conch.launcher import TritonServer

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


def config_for(
    requests: Iterable[Mapping[str, Any]],
    weights: Mapping[str, str] = NO_WEIGHTS,
    *,
    live: bool = False,
    others: Iterable[str] = (),
) -> "ServerConfig":
    """Return the settings of a server for one command, with the weights found; see `server_url`.

    What has no weights here is left out: another decoder takes its place, and the n-gram rescorer
    that of the neural one. Raise a ConfigError if chosen weights are missing or incomplete.
    """
    from conch.catalogue.models import KINDS, components_chosen, find
    from conch.launcher import ServerConfig, shipped_repositories, without_weights

    for options in requests:
        if model := options.get("model"):
            raise ConfigError(
                f"--model {model} names a model of a running server: start one with conch serve "
                f"--model NAME=FOLDER, and give its --url{_flag_for(model)}"
            )
    found = {name: str(find(KINDS[name], asked)) for name, asked in weights.items()}
    chosen = components_chosen(found)
    lacking = without_weights(shipped_repositories(), "", chosen)
    named, replaced = dict.fromkeys((ENTRY_POINTS[0], *others)), set[str]()
    for options in requests:
        wanted = components_to_serve(options, live=live, chosen=chosen)
        usable = components_to_serve(options, live=live, chosen=chosen, lacking=lacking)
        replaced |= {lacking[model] for model in wanted if model in lacking.keys() - usable.keys()}
        named |= dict.fromkeys(usable)
    for remedy in sorted(replaced):
        print(f"conch: {remedy}; another decoder takes its place", file=sys.stderr)
    for model in {*lacking} & {*named} & {*rescorers().values()}:
        print(f"conch: {lacking[model]}; rescorer takes its place", file=sys.stderr)
        del named[model]
        named["rescorer"] = None
    return ServerConfig(models=[*named], weights=found)
