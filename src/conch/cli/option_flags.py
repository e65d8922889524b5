"""Command-line flags for the options of a request, made from `RecognitionOptions` itself."""

import argparse
from dataclasses import Field, fields
from typing import Any, Literal, get_args, get_origin

from conch.options import RecognitionOptions, default_of, describe


def add_option_flags(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every option; a flag that is not given leaves no trace in the namespace."""
    group = parser.add_argument_group(
        "recognition options", "What is not given is left to the server's default."
    )
    for item in fields(RecognitionOptions):
        group.add_argument(
            "--" + item.name.replace("_", "-"), default=argparse.SUPPRESS, **_kind(item)
        )


def given_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options whose flags were given."""
    names = [item.name for item in fields(RecognitionOptions)]
    return {name: getattr(args, name) for name in names if name in args}


def _kind(item: "Field[Any]") -> dict[str, Any]:
    meaning = item.metadata["help"]
    if item.type is bool:
        default = "on" if item.default else "off"
        help = f"{meaning} (default: {default})"
        return {"action": argparse.BooleanOptionalAction, "help": _escaped(help)}
    if get_origin(item.type) is Literal:
        help = f"{meaning} (default: {item.default})"
        return {"choices": get_args(item.type), "help": _escaped(help)}
    help = _escaped(f"{meaning} ({describe(item)}; default: {default_of(item)})")
    metavar = {int: "N", float: "X", str: "TEXT"}
    return {"type": item.type, "metavar": metavar[item.type], "help": help}  # type: ignore[index]


def _escaped(help: str) -> str:
    return help.replace("%", "%%")
