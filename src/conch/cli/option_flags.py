"""Command-line flags for the options of a request, derived from their fields."""

import argparse
from collections.abc import Collection
from dataclasses import Field
from typing import Any

from conch.wire.options import all_options, default_of, describe, kind_of, words_of

_FOR_PROGRAMS = ("vad_state",)
"""Options without a flag: only programs set them."""


def add_option_flags(parser: argparse.ArgumentParser, *, without: Collection[str] = ()) -> None:
    """Add a flag for every option; one that is not given is missing in the namespace."""
    group = parser.add_argument_group(
        "recognition options", "An option that is not given has the server's default."
    )
    for item in all_options().values():
        if item.name in (*without, *_FOR_PROGRAMS):
            continue
        group.add_argument(
            "--" + item.name.replace("_", "-"), default=argparse.SUPPRESS, **_kind(item)
        )


def given_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options whose flags were given."""
    return {name: getattr(args, name) for name in all_options() if name in args}


def _kind(item: "Field[Any]") -> dict[str, Any]:
    meaning = item.metadata["help"]
    if item.type is bool:
        default = "on" if item.default else "off"
        help = f"{meaning} (default: {default})"
        return {"action": argparse.BooleanOptionalAction, "help": _escaped(help)}
    words, kind = words_of(item), kind_of(item)
    if kind is None:
        help = f"{meaning} (default: {item.default})"
        return {"choices": words, "help": _escaped(help)}
    help = _escaped(f"{meaning} ({describe(item)}; default: {default_of(item)})")
    if words:  # a number is made of it by `RecognitionOptions.parse`
        alone = {"nargs": "?", "const": "auto"} if "auto" in words else {}
        return {"metavar": "|".join((*words, "N")), "help": help, **alone}
    metavar = {int: "N", float: "X", str: "TEXT"}
    return {"type": kind, "metavar": metavar[kind], "help": help}


def _escaped(help: str) -> str:
    return help.replace("%", "%%")
