"""The `conch` command."""

import argparse
import difflib
import errno
import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from conch import __version__
from conch.wire.errors import ConchError

SUBCOMMANDS = (
    "serve",
    "gateway",
    "transcribe",
    "bulk",
    "agree",
    "stream",
    "say",
    "models",
    "speakers",
    "graph",
    "demo",
    "bench",
    "deploy",
)
"""Modules of this package, each with `add_parser(subparsers)` and `run(args) -> int`.

They must import cheaply: `conch --help` loads all of them.
"""

_UNKNOWN_COMMAND = re.compile(r"argument [A-Z]+: invalid choice: '([^']*)' \(choose from (.*)\)")
SHORT_USAGE = 3
"""Most lines of usage in front of an error."""
WHEEL = "nvidia-pytriton"
"""The package that brings the Triton server."""
TRITON_OF_WHEEL = {"0.7.0": "2.51.0 (NVIDIA's release 24.10)"}
"""The server's version by version of the wheel, which does not report it."""


def version_text() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        wheel = version(WHEEL)
    except PackageNotFoundError:
        return f"conch {__version__}; no Triton server is installed ({WHEEL} is missing)"
    triton = TRITON_OF_WHEEL.get(wheel, "of unknown version")
    return f"conch {__version__}; Triton {triton}, from {WHEEL} {wheel}"


class _Parser(argparse.ArgumentParser):
    """A parser that suggests the flag closest to an unknown one; so do its commands."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            names = [flag.lstrip("-") for flag in self._option_string_actions]
            sent = unknown[0].lstrip("-").partition("=")[0]
            close = difflib.get_close_matches(sent, names, n=1, cutoff=0.75)
            hint = f"did you mean --{close[0]}? " if close else ""
            problem = f"unrecognized arguments: {' '.join(unknown)}"
            # Without the usage: the hint would be lost below its many flags.
            self.exit(2, f"{self.prog}: error: {problem}; {hint}{self.prog} --help lists all\n")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Exit with code 2; for an unknown command, name the one that was meant."""
        if unknown := _UNKNOWN_COMMAND.match(message):
            sent, known = unknown[1], re.findall(r"'([^']*)'", unknown[2])
            close = difflib.get_close_matches(sent, known, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            problem = f"no command {sent!r}; {hint}{self.prog} --help lists all"
            self.exit(2, f"{self.prog}: error: {problem}\n")
        if self.format_usage().count("\n") > SHORT_USAGE:
            # The error would be lost below it.
            self.exit(2, f"{self.prog}: error: {message}; {self.prog} --help lists all\n")
        super().error(message)


class _Version(argparse.Action):
    """Print the versions and exit; only this flag spends time on finding them."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(version_text())
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="conch",
        description="Speech recognition on NVIDIA Triton through one BLS model.",
        epilog="`conch COMMAND --help` explains a command and shows examples.",
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show Conch's version and Triton's, and exit"
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in SUBCOMMANDS:
        importlib.import_module(f"conch.cli.{name}").add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 for success, 1 for failure, 2 for wrong usage."""
    args = build_parser().parse_args(argv)
    try:
        status = int(args.run(args))
        sys.stdout.flush()
        return status
    except ConchError as error:
        print(f"conch {args.command}: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        # Imported here: only a missing package needs it.
        from conch.packaged import extra_with, install

        extra = extra_with((error.name or "").partition(".")[0])
        if extra is None:
            raise
        print(f"conch {args.command}: needs {error.name}; {install(extra)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has gone, as in `conch … | head`. The interpreter's last flush must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"conch {args.command}: cannot write: {error.strerror}", file=sys.stderr)
        return 1
