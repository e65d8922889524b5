"""Where a figure comes from: the machine, the versions, the command."""

import os
import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

PACKAGES = (
    "conch",
    "nvidia-pytriton",
    "tritonclient",
    "ctranslate2",
    "onnxruntime",
    "torch",
    "numpy",
    "faster-whisper",
    "jiwer",
    "whisper-normalizer",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine that a report is of."""

    cpu: str
    cores: int
    """That this process may use."""
    memory_gb: float
    """In GB of 10⁹ bytes."""
    system: str
    load_average: float
    """Of the last minute: above zero, something else ran and the figures are not the best."""


def machine() -> Machine:
    """Describe this machine."""
    return Machine(
        cpu=_proc_field("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        cores=cores(),
        memory_gb=round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1),
        system=platform.platform(),
        load_average=round(os.getloadavg()[0], 2),
    )


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that matter, as far as installed here."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def command(program: Sequence[str]) -> str:
    """Return the command line that was typed, fit for a shell; `program` is how it begins."""
    return shlex.join([*program, *sys.argv[1:]])


def _proc_field(file: str, key: str) -> str:
    for line in Path(file).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""
