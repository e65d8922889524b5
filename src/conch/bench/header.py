"""What a report says besides its figures: what was measured, where, with which versions."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from conch.bench.machine import Machine, command, machine, versions
from conch.bench.records import Flat

Plain = str | int | float | None

PROGRAM = ("conch",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Where the figures of a report come from."""

    benchmark: str
    started_at: str
    """In UTC, ISO 8601."""
    command: str
    """As it was typed."""
    machine: Machine
    """That the benchmark runs on."""
    versions: Mapping[str, str]
    """Of Python, of packages and, as `triton`, of the server."""
    settings: Flat[Mapping[str, Plain]]
    """Of the benchmark, as far as they are numbers and texts."""

    def with_triton(self, version: str) -> "Header":
        """Return the header with the server's version."""
        return replace(self, versions={**self.versions, "triton": version})


def header(name: str, benchmark: Any, program: Sequence[str] = PROGRAM) -> Header:
    """Return the header of a report that begins now.

    Args:
        name: of the benchmark.
        benchmark: a dataclass; what of it is not a number, a text or nothing is left out.
        program: how the command line begins.
    """
    return Header(
        benchmark=name,
        started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=command(program),
        machine=machine(),
        versions=versions(),
        settings={
            key: str(value) if isinstance(value, Path) else value
            for key, value in asdict(benchmark).items()
            if isinstance(value, Path | Plain)
        },
    )
