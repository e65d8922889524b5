"""The header of a report of the laboratory."""

from typing import Any

from conch.bench.header import Header, header

PROGRAM = ("python", "-m", "lab")


def lab_header(name: str, benchmark: Any) -> Header:
    """Return the header of a report that begins now; see `conch.bench.header.header`."""
    return header(name, benchmark, PROGRAM)
