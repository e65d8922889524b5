"""What every command of `python -m lab` has: flags, a report and exit codes."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from conch.bench.header import Header, header
from conch.cli.arguments import Subparsers, add_command, add_flags
from conch.cli.bench import add_input, add_output, write_report
from conch.scoring import require
from lab.arguments import types_of

PROGRAM = ("python", "-m", "lab")

Report = TypeVar("Report")

MEASURED = "0 measured; 1 not measured, or requests failed; 2 wrong usage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    run: Callable[[argparse.Namespace], int]
    description: str
    epilog: str
    """What the help shows behind the flags, with examples."""
    flags: str = ""
    """As of `add_flags`; `lab.arguments.TYPES` has the types of their forms."""
    types: Mapping[str, Any] = field(default_factory=dict)
    """Of other flags, as of `add_flags`."""
    add: Callable[[Any], object] = lambda parser: None
    """Adds what the flags cannot say."""
    takes_manifest: bool = False
    has_report: bool = True
    codes: str = MEASURED

    def add_to(self, commands: Subparsers, name: str, help: str) -> None:
        parser = add_command(
            commands,
            name,
            self._run,
            help=help,
            description=self.description,
            epilog=f"{self.epilog}\nexit codes: {self.codes}\n",
        )
        types = types_of(self.flags) | dict(self.types)
        if self.takes_manifest:
            add_input(parser, self.flags, **types)
        else:
            add_flags(parser, self.flags, **types)
        self.add(parser)
        if self.has_report:
            add_output(parser)

    def _run(self, args: argparse.Namespace) -> int:
        if getattr(args, "plot", None):
            require("matplotlib", extra="lab")  # before the measurement, not after it
        return self.run(args)


def reporting(
    measure: Callable[[argparse.Namespace], Report],
    markdown: Callable[[Report], str],
    *,
    has_failed: Callable[[Report], bool] = lambda report: False,
    plot: Callable[[Report, Path], object] | None = None,
) -> Callable[[argparse.Namespace], int]:
    """Return a command that writes a report of what it measures, and draws it for `--plot`."""

    def run(args: argparse.Namespace) -> int:
        report = measure(args)
        write_report(args, report, markdown(report))
        if plot and args.plot:
            plot(report, args.plot)
        return 1 if has_failed(report) else 0

    return run


def lab_header(name: str, benchmark: Any) -> Header:
    """Return the header of a report that begins now; see `conch.bench.header.header`."""
    return header(name, benchmark, PROGRAM)
