"""Flags of the commands that talk to a server: its address, and what goes with every request."""

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conch.catalogue.models import KINDS
from conch.cli.arguments import UsageError, add_flags
from conch.client.endpoint import CA_VARIABLE, Address, request_headers
from conch.wire.errors import OptionError, ServerError
from conch.wire.formats import with_options_of
from conch.wire.options import RecognitionOptions

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
_CHOSEN = [kind for kind in KINDS.values() if kind.help]
WEIGHTS = "".join(f"\n{kind.flag} {kind.value}  {kind.help}" for kind in _CHOSEN) + "\n"
NO_WEIGHTS = {kind.name: "" for kind in _CHOSEN}
"""The values of these flags where they are not given."""


def add_server_flags(parser: "argparse._ActionsContainer") -> None:
    """Add the address of a server, what goes with every request, and the weights of a new one."""
    add_flags(parser, URL + HEADERS + WEIGHTS, **NO_WEIGHTS)


def weights_of(args: argparse.Namespace) -> dict[str, str]:
    """Return the weights that flags choose, by kind."""
    return {name: asked for name in KINDS if (asked := getattr(args, name, ""))}


def headers_of(args: argparse.Namespace) -> dict[str, str]:
    """Return the headers of every request, with the key; trust the certificates of `--ca-cert`.

    Raise a UsageError if a header is wrong. The message repeats none, as it may be secret.
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
    """Return the headers of every request, with the key, and the weights that flags choose.

    Raise a UsageError if a header is wrong, or there are weights and --url.
    """
    headers = headers_of(args)
    weights = weights_of(args)
    for name in weights:
        if args.url:
            flag = KINDS[name].flag
            raise UsageError(
                f"{flag} is for a server that this command starts, and --url names one that "
                f"runs: start that one with conch serve {flag}"
            )
    return headers, weights


def with_options_of_formats(formats: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `with_options_of` formats; its errors are those of usage."""
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
