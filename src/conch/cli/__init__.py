"""The `conch` command."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from conch import __version__
from conch.errors import ConchError

# A module of this package each, with add_parser(subparsers) and run(args) -> int. They must
# import cheaply: all of them are loaded for `conch --help`.
SUBCOMMANDS = ("serve", "transcribe", "stream", "graph", "demo", "bench")


def build_parser() -> argparse.ArgumentParser:
    """The parser with every subcommand."""
    parser = argparse.ArgumentParser(
        prog="conch",
        description="Speech recognition on NVIDIA Triton through one BLS model.",
        epilog="`conch COMMAND --help` explains a command and shows examples.",
    )
    parser.add_argument("--version", action="version", version=f"conch {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in SUBCOMMANDS:
        importlib.import_module(f"conch.cli.{name}").add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns 0 for success, 1 for failure, 2 for wrong usage."""
    args = build_parser().parse_args(argv)
    try:
        status = int(args.run(args))
        sys.stdout.flush()
        return status
    except ConchError as error:
        print(f"conch {args.command}: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        # Only who lacks a package waits for what finds its extra.
        from conch.packaged import extra_with, install

        extra = extra_with((error.name or "").partition(".")[0])
        if extra is None:
            raise
        print(f"conch {args.command}: needs {error.name}; {install(extra)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has gone, as in `conch … | head`; the interpreter's own flush must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
