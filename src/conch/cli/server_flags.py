"""Flags of the commands that talk to a server: its address, and what goes with every request."""

import argparse

from conch.client.endpoint import request_headers
from conch.wire.errors import ServerError


def add_server_flags(parser: "argparse._ActionsContainer", *, without: str) -> None:
    """Add the address of a server, and the flags of `add_header_flags`.

    Args:
        parser: Parser or group to extend.
        without: What happens without an address, for the help.
    """
    parser.add_argument(
        "--url",
        help="host:port, http://, https://, grpc:// or grpcs:// of a running server, or of a "
        f"gateway; {without}",
    )
    add_header_flags(parser)


def add_header_flags(parser: "argparse._ActionsContainer") -> None:
    """Add the key of a gateway, and the headers that a proxy wants."""
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        help="key of the gateway or of a proxy; the environment variable CONCH_API_KEY keeps it "
        "out of lists of processes",
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="a header of every request, for a proxy; may be given several times",
    )


def add_whisper_flag(parser: "argparse._ActionsContainer") -> None:
    """Add the choice of a Whisper for a server that the command starts."""
    parser.add_argument(
        "--whisper",
        default="",
        metavar="MODEL",
        help="the Whisper of the server that this starts: a name that conch models lists, such as "
        "base, or a folder in CTranslate2's format (default: tiny.en, English)",
    )


def given_whisper(args: argparse.Namespace) -> str:
    """Return the choice of `add_whisper_flag`; with a --url it ends the program with code 2."""
    if args.whisper and args.url:
        args.usage_error(
            "--whisper is for a server that this command starts, and --url names one that runs: "
            "start that one with conch serve --whisper"
        )
    return str(args.whisper)


def given_headers(args: argparse.Namespace) -> dict[str, str]:
    """Return the headers of every request, with the key; a mistake ends the program with code 2.

    Messages repeat no value, as it may be secret.
    """
    headers: dict[str, str] = {}
    try:
        for text in args.header:
            name, colon, value = text.partition(":")
            if not colon:
                raise ServerError("--header takes 'NAME: VALUE'; there is no colon in it")
            headers[name.strip()] = value.strip()
        return request_headers(args.api_key, headers)
    except ServerError as error:
        args.usage_error(str(error))
        raise
