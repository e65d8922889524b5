"""The server of a command: flags that name it, and one that starts and ends with the command."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from conch.catalogue.models import KINDS, components_chosen, detect, find
from conch.cli.arguments import UsageError, add_flags
from conch.client.endpoint import CA_VARIABLE, Address, request_headers
from conch.families import likening, rescorers, traits
from conch.wire.entry_points import ENTRY_POINTS, FITTING, SYNTHESIS
from conch.wire.errors import ConfigError, OptionError, ServerError
from conch.wire.formats import with_options_of
from conch.wire.named_models import post_models
from conch.wire.needs import components_to_serve, missing_post
from conch.wire.options import RecognitionOptions
from conch.wire.synthesis import SynthesisOptions, synthesizer_of

if TYPE_CHECKING:
    from conch.launcher import ServerConfig

URL = """
--url URL  host:port, http://, https://, grpc:// or grpcs:// of a running server, or of a gateway;
           without it, one is started
"""
HEADERS = """
--api-key KEY              key of the gateway or of a proxy; the environment variable CONCH_API_KEY
                           keeps it out of lists of processes
--ca-cert FILE             certificates (PEM) to trust, for a private authority; the environment
                           variable CONCH_CA_CERT does the same
--header 'NAME: VALUE'...  a header of every request, for a proxy
"""
BEFORE = dict.fromkeys(("url", "api_key", "ca_cert"), (str, argparse.SUPPRESS))
"""Types of flags of a command below another one: what stands in front of the command holds."""
_CHOSEN = [kind for kind in KINDS.values() if kind.help]
WEIGHTS = "".join(f"\n{kind.flag} {kind.value}  {kind.help}" for kind in _CHOSEN) + "\n"
NO_WEIGHTS = {kind.name: "" for kind in _CHOSEN}
"""The values of these flags where they are not given."""
DEFAULT_WEIGHTS: Mapping[str, str] = MappingProxyType({})


def add_server_flags(parser: "argparse._ActionsContainer") -> None:
    add_flags(parser, URL + HEADERS + WEIGHTS, **NO_WEIGHTS)


def weights_of(args: argparse.Namespace) -> dict[str, str]:
    return {name: model for name in KINDS if (model := getattr(args, name, ""))}


def headers_of(args: argparse.Namespace) -> dict[str, str]:
    """Return the headers of every request, with the key; trust the certificates of `--ca-cert`.

    An error repeats no header, as it may be secret.
    """
    if args.ca_cert:
        # Every client of the command takes it from there.
        os.environ[CA_VARIABLE] = args.ca_cert
    headers: dict[str, str] = {}
    for text in args.header:
        name, colon, value = text.partition(":")
        if not colon:
            raise UsageError("--header takes 'NAME: VALUE'; there is no colon in it")
        headers[name.strip()] = value.strip()
    try:
        return request_headers(args.api_key, headers)
    except ServerError as error:
        raise UsageError(str(error)) from None


def given_server(args: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """Return the headers of every request, and the weights of a server that this command starts."""
    headers, weights = headers_of(args), weights_of(args)
    if weights and args.url:
        flag = KINDS[next(iter(weights))].flag
        raise UsageError(
            f"{flag} is for a server that this command starts, and --url names one that runs: "
            f"start that one with conch serve {flag}"
        )
    return headers, weights


def with_options_of_formats(formats: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return with_options_of(formats, given)
    except OptionError as error:
        raise UsageError(str(error)) from None


def checked_options(
    options: Mapping[str, Any], urls: Iterable[str | None] = (), *, live: bool = False
) -> RecognitionOptions:
    """Return the checked options of requests; raise a UsageError for a wrong option or address."""
    try:
        for url in filter(None, urls):
            Address.parse(url)
            if os.sep in (model := options.get("model", "")):
                raise UsageError(
                    f"--model takes the name of a model of the server; sent: {model!r:.200}, a "
                    f"folder, which conch serve --model NAME={model:.200} serves under a name"
                )
        return RecognitionOptions.parse(options, live=live)
    except (OptionError, ServerError) as error:
        raise UsageError(str(error)) from None


def server_url(
    url: str | None,
    requests: Iterable[Mapping[str, Any]],
    weights: Mapping[str, str] = DEFAULT_WEIGHTS,
    *,
    live: bool = False,
    others: Iterable[str] = (),
) -> AbstractContextManager[str]:
    """Yield `url`, or that of a new server which answers such requests; see `_running`.

    It has the `weights` by kind, and `others` beyond `speech` and what the requests need.
    """
    return _running(url, lambda: config_for(requests, weights, live=live, others=others))


def server_for_voice(
    url: str | None, options: SynthesisOptions, weights: Mapping[str, str] = DEFAULT_WEIGHTS
) -> AbstractContextManager[str]:
    """Yield `url`, or that of a new server which speaks."""

    def config() -> "ServerConfig":
        from conch.launcher import ServerConfig

        synthesizer, more = synthesizer_of(options.voice), list[str]()
        if options.reference:
            # Whoever gives a recording to his own server answers for it.
            synthesizer = likening()
            more = [synthesizer.voice_style, synthesizer.embedding]
        return ServerConfig(
            models=(*SYNTHESIS, *synthesizer.components, *more),
            weights=weights,
            voices_from_recordings=bool(options.reference) or synthesizer.is_fitted,
        )

    return _running(url, config)


def server_that_fits(url: str | None) -> AbstractContextManager[str]:
    """Yield `url`, or that of a new server which fits voices."""
    by = likening()
    others = (FITTING, *SYNTHESIS, *by.components, by.voice_style, by.embedding, by.gradient)
    # Whoever gives recordings to his own server answers for them.
    return _running(
        url, lambda: replace(config_for([{}], others=others), voices_from_recordings=True)
    )


def _flag_for(model: str) -> str:
    try:
        kind, folder, _ = detect(model)
    except ConfigError:
        return ""
    return f". For a server of this command alone: {kind.flag} {folder}"


@contextmanager
def _running(url: str | None, config: Callable[[], "ServerConfig"]) -> Iterator[str]:
    """Yield `url`; without one start a server by these settings, yield its gRPC URL, and end it."""
    if url is not None:
        yield url
        return
    from conch.launcher import TritonServer

    server = TritonServer(config())
    print("conch: no --url given: starting a server for this", file=sys.stderr)
    begun = perf_counter()
    with server:
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
    weights: Mapping[str, str] = DEFAULT_WEIGHTS,
    *,
    live: bool = False,
    others: Iterable[str] = (),
) -> "ServerConfig":
    """Return the settings of a server for one command, with the weights found; see `server_url`.

    What has no weights here is left out: another decoder takes its place, and the n-gram rescorer
    that of the neural one.
    """
    from conch.launcher import ServerConfig, shipped_repositories, without_weights

    for options in requests:
        if model := options.get("model"):
            raise ConfigError(
                f"--model {model} names a model of a running server: start one with conch serve "
                f"--model NAME=FOLDER, and give its --url{_flag_for(model)}"
            )
        for step in post_models(options.get("post", "")):
            if step not in traits():
                raise ConfigError(str(missing_post(step)))
    folders = {name: str(find(KINDS[name], model)) for name, model in weights.items()}
    chosen = components_chosen(folders)
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
    return ServerConfig(models=[*named], weights=folders)
