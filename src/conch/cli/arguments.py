"""Commands, their flags, and the types of arguments that several commands take."""

import argparse
import math
import re
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from conch.wire.hosts import is_address

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The group of a parser that commands are added to."""
MAX_PORT = 65_535
Run: TypeAlias = Callable[[argparse.Namespace], int]

_FLAG = re.compile(r"^(-\S+)(?: (\S.*?))?  +(\S.*(?:\n .*)*)$", re.MULTILINE)
"""Name, form of the value, and help."""


class UsageError(Exception):
    """A mistake in the arguments: the command ends with this message and exit code 2."""


def add_command(
    subparsers: Subparsers,
    name: str,
    run: Run,
    *,
    help: str,
    description: str | None = None,
    epilog: str = "",
    usage: str | None = None,
) -> argparse.ArgumentParser:
    """Add a command and return its parser.

    SIGTERM ends it like Ctrl-C. A `usage` takes the place of argparse's own where that is too long.
    """
    raw = argparse.RawDescriptionHelpFormatter if epilog else argparse.HelpFormatter
    parser = subparsers.add_parser(
        name, help=help, description=description, epilog=epilog, usage=usage, formatter_class=raw
    )
    parser.set_defaults(run=partial(_run, run, parser))
    return parser


def _run(run: Run, parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    interrupt_on_sigterm()
    try:
        return run(args)
    except UsageError as error:
        parser.error(str(error))


def add_flags(parser: "argparse._ActionsContainer", text: str, **values: Any) -> None:
    """Add flags to a parser or a group; the text shows them as their help does.

    A line has the flag, the form of its value, at least two spaces, and the help, which goes on in
    indented lines. A flag without a form is a switch. A form like `{a,b}` has these choices. It
    may end in `=` and a default, in `!` if the flag is required, or in `...` if it may be given
    several times. `values` has the type of a flag's value, or a default that the help does not
    show, or both as a tuple.
    """
    for flag, form, help in _FLAG.findall(text):
        value = values.pop(flag.lstrip("-").replace("-", "_"), str)
        if not form:
            parser.add_argument(flag, action="store_true", help=help)
            continue
        if not isinstance(value, tuple):
            value = (value, None) if callable(value) else (type(value), value)
        keywords: dict[str, Any] = {"type": value[0], "default": value[1], "metavar": form}
        if form.endswith("..."):
            keywords |= {"action": "append", "default": [], "metavar": form[:-3]}
            help = f"{help}; may be given several times"
        elif form.endswith("!"):
            keywords |= {"required": True, "metavar": form[:-1]}
        elif "=" in form:
            keywords["metavar"], _, keywords["default"] = form.partition("=")
            help = f"{help} (default: {keywords['default']})"
        if form.startswith("{"):
            keywords["choices"] = keywords.pop("metavar")[1:-1].split(",")
        parser.add_argument(flag, help=help, **keywords)
    assert not values, f"no such flags: {list(values)}"


def whole(least: int, most: float = math.inf) -> Callable[[str], int]:
    """Return an argument type for whole numbers from `least` to `most`."""
    takes = f"a whole number from {least}" + (f" to {most}" if most < math.inf else "")

    def read(text: str) -> int:
        if not text.strip().isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{takes}; got {text!r}")
        return int(text)

    return read


positive = whole(1)


def number(takes: str, is_taken: Callable[[float], bool]) -> Callable[[str], float]:
    """Return an argument type for a range of numbers, which an error tells in words."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan  # in no range
        if not is_taken(value):
            raise argparse.ArgumentTypeError(f"{takes}; got {text!r}")
        return value

    return read


def output(text: str) -> Path:
    # Check this before a long measurement, not after it.
    path = Path(text)
    if not path.parent.is_dir() or path.is_dir():
        raise argparse.ArgumentTypeError(f"not a file in a folder that exists: {text!r}")
    return path


def existing(text: str) -> str:
    """Return the name of a file that is there, before a server is started for it."""
    if not Path(text).exists() or Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"a file that exists; got {text!r}")
    return text


def address(text: str, least: int = 0) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, `:PORT` or `PORT`; the default host is the loopback."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if ":" in host and not is_address(host):
        raise argparse.ArgumentTypeError(f"HOST:PORT, as [::1]:9000; got {text!r}")
    if not port.isdecimal() or not least <= int(port) <= MAX_PORT:
        takes = f"HOST:PORT, with a port from {least} to {MAX_PORT}"
        raise argparse.ArgumentTypeError(f"{takes}; got {text!r}")
    return host, int(port)


def interrupt_on_sigterm() -> None:
    """Handle SIGTERM like Ctrl-C, so that no server, child process or folder is left behind."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
