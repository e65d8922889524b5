"""Which part of a server's CPU is spent outside the components."""

from collections.abc import Collection, Mapping

ORCHESTRATION = ("speech", "tritonserver")
"""The processes of a server that are no components."""


def share_of(cpu_s: Mapping[str, float], names: Collection[str]) -> float | None:
    """Return the fraction of CPU that some processes have used; None if none was used."""
    total = sum(cpu_s.values())
    used = sum(seconds for name, seconds in cpu_s.items() if name in names)
    return round(used / total, 4) if total else None
