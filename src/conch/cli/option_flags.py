"""Command-line flags for the options of a request, derived from their fields."""

import argparse
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import Field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from conch.client import OptionValue
from conch.wire.errors import ConfigError, OptionError
from conch.wire.known_speakers import option_of
from conch.wire.option_values import default_of, describe, options_of_text, type_of, words_of
from conch.wire.options import RecognitionOptions, all_options
from conch.wire.speaker_names import names_of

_FOR_PROGRAMS = ("vad_state",)
"""Options without a flag: only programs set them."""


def add_option_flags(
    parser: argparse.ArgumentParser,
    *,
    without: Collection[str] = (),
    known: Iterable["Field[Any]"] | None = None,
    choices: Mapping[str, Sequence[str]] = MappingProxyType({}),
    title: str = "recognition options",
) -> None:
    """Add a flag for every known option; one that is not given is missing in the namespace.

    `choices` are those of an option of which the command takes no others.
    """
    group = parser.add_argument_group(
        title, "An option that is not given has the server's default."
    )
    for item in all_options().values() if known is None else known:
        if item.name in (*without, *_FOR_PROGRAMS):
            continue
        taken = {"choices": choices[item.name]} if item.name in choices else {}
        flag = "--" + item.name.replace("_", "-")
        group.add_argument(flag, default=argparse.SUPPRESS, **{**_settings(item), **taken})


def given_options(
    args: argparse.Namespace, known: Iterable["Field[Any]"] | None = None
) -> dict[str, Any]:
    """Return the options whose flags were given; with names or voices, speakers are told apart."""
    names = all_options() if known is None else [item.name for item in known]
    given = {name: getattr(args, name) for name in names if name in args}
    is_named = "known_speakers" in given or getattr(args, "speaker_names", {})
    return {"speakers": "auto", **given} if is_named else given


def speaker_names(text: str) -> dict[str, str]:
    try:
        return names_of(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _enrolled(names: str) -> str:
    """Return enrolled voices, by names with commas or all, as the option's text."""
    from conch.client.speakers import known_speakers

    try:
        chosen = [] if names == "all" else [name.strip() for name in names.split(",")]
        return option_of(known_speakers(chosen))
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def reference_text(name: str) -> str:
    """Return a recording of a voice, or an enrolled voice, as the option's text."""
    from conch.client.speakers import known_speakers

    try:
        if (path := Path(name)).is_file():
            if not path.stat().st_size:
                raise argparse.ArgumentTypeError(f"{name} is empty")
            return option_of([{"name": "recording", "audio": path.read_bytes()}])
        return option_of(known_speakers([name]))
    except (ConfigError, OSError) as error:
        raise argparse.ArgumentTypeError(f"it is no file, and {error}") from None


_OTHERWISE: Mapping[str, Mapping[str, Any]] = {
    "known_speakers": {
        "type": _enrolled,
        "metavar": "NAME,...|all",
        "help": "voices of conch speakers add that get their names; sets --speakers auto",
    },
    "reference": {
        "type": reference_text,
        "metavar": "FILE|NAME",
        "help": "a recording of 3 to 20 s, or a voice of conch speakers add: speak with the mix "
        "that is nearest to it, in place of --voice",
    },
}


def _settings(item: "Field[Any]") -> dict[str, Any]:
    if item.name in _OTHERWISE:
        return dict(_OTHERWISE[item.name])
    meaning = item.metadata["help"]
    if item.type is bool:
        default = "on" if item.default else "off"
        help = f"{meaning} (default: {default})"
        return {"action": argparse.BooleanOptionalAction, "help": _escaped(help)}
    words, value_type = words_of(item), type_of(item)
    if value_type is None:
        help = f"{meaning} (default: {item.default})"
        return {"choices": words, "help": _escaped(help)}
    help = _escaped(f"{meaning} ({describe(item)}; default: {default_of(item)})")
    if words:
        alone = {"nargs": "?", "const": "auto"} if "auto" in words else {}
        form = "|".join((*words, "N"))

        def read(text: str) -> str:
            # `RecognitionOptions.parse` makes a number of it.
            if text not in words and not text.lstrip("-").isdecimal():
                hint = "; files go in front of the flag" if alone else ""
                raise argparse.ArgumentTypeError(f"{form}; got {text!r}{hint}")
            return text

        return {"metavar": form, "help": help, "type": read, **alone}
    if item.name in ("names", "hotwords"):
        return {"type": _phrases, "metavar": "TEXT|@FILE", "help": f"{help}; or a file of them"}
    metavar = {int: "N", float: "X", str: "TEXT"}

    def typed(text: str) -> Any:
        try:
            return value_type(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{describe(item)}; got {text!r}") from None

    return {"type": typed, "metavar": metavar[value_type], "help": help}


def _phrases(text: str) -> str:
    if not text.startswith("@"):
        if os.path.isfile(text):  # Path raises an error for a long list
            raise argparse.ArgumentTypeError(f"phrases, or a file of them: @{text}; got {text!r}")
        return text
    try:
        lines = Path(text[1:]).read_text("utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text[1:]} cannot be read: {error}") from None
    return "\n".join(filter(str.strip, lines))


def _escaped(help: str) -> str:
    return help.replace("%", "%%")


def parse_options(pairs: Sequence[str], *, live: bool = False) -> dict[str, OptionValue]:
    """Return the typed request options of `name=value` pairs, or raise an OptionError."""
    texts: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise OptionError(f"an option is written name=value; sent: {pair!r}")
        if name in texts:
            raise OptionError(f"option '{name}' is given twice")
        texts[name] = value
    options = options_of_text(texts, all_options())
    # Only check them: the server has the defaults of the others.
    RecognitionOptions.parse(options, live=live)
    return options
