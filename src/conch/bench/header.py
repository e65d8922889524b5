"""The header of a report: what was measured, where, with which versions."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from conch.bench.machine import Machine, command, machine, versions
from conch.bench.records import Flat

Plain = str | int | float | None

PROGRAM = ("conch",)
"""Beginning of the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The origin of the figures of a report."""

    benchmark: str
    started_at: str
    """Time in UTC, ISO 8601."""
    command: str
    """The command line as it was typed."""
    machine: Machine
    """The machine that the benchmark runs on."""
    versions: Mapping[str, str]
    """Versions of Python, of packages and, as `triton`, of the server."""
    settings: Flat[Mapping[str, Plain]]
    """Settings of the benchmark that are numbers or texts."""

    def with_triton(self, version: str) -> "Header":
        """Return the header with the server's version."""
        return replace(self, versions={**self.versions, "triton": version})


def header(name: str, benchmark: Any, program: Sequence[str] = PROGRAM) -> Header:
    """Return the header of a report that begins now.

    Args:
        name: name of the benchmark.
        benchmark: a dataclass; the header takes its fields that are numbers, texts, paths or None.
        program: beginning of the command line.
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
