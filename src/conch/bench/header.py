"""Reports as JSON, and the origin of their figures: what, where, with which versions."""

import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, get_args

Json: TypeAlias = dict[str, "Json"] | list["Json"] | str | int | float | None

_FLAT = "flat"
Item = TypeVar("Item")
Flat: TypeAlias = Annotated[Item, _FLAT]
"""Type of a record's field that the JSON replaces by the field's own fields."""

PACKAGES = (
    "conch",
    "nvidia-pytriton",
    "tritonclient",
    "ctranslate2",
    "onnxruntime",
    "torch",
    "numpy",
    "faster-whisper",
    "sherpa-onnx",
    "jiwer",
    "whisper-normalizer",
)
SECRET_FLAGS = ("--api-key", "--header")
"""Flags of the commands whose values no report may repeat."""
PROGRAM = ("conch",)


def to_json(value: Any) -> Json:
    """Return records, mappings, sequences, paths and plain values in a form for `json.dumps`."""
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return _object(value)
    raise TypeError(f"a report holds {type(value).__name__}, which has no JSON")


def _object(record: Any) -> dict[str, Json]:
    plain: dict[str, Json] = {}
    for item in fields(record):
        value = to_json(getattr(record, item.name))
        if isinstance(value, dict) and _FLAT in get_args(item.type):
            plain |= value
        else:
            plain[item.name] = value
    return plain


Plain = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    cpu: str
    cores: int
    """Cores that this process may use."""
    memory_gb: float
    system: str
    load_average: float
    """Load average of the last minute: above zero, another program disturbed the figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    benchmark: str
    started_at: str
    command: str
    machine: Machine
    versions: Mapping[str, str]
    """Versions of Python, of packages and, as `triton`, of the server."""
    settings: Flat[Mapping[str, Plain]]
    """Settings of the benchmark that are numbers or texts."""

    def with_triton(self, version: str) -> "Header":
        return replace(self, versions={**self.versions, "triton": version})


def header(name: str, benchmark: Any, program: Sequence[str] = PROGRAM) -> Header:
    """Return the header of a report that begins now, with the plain fields of `benchmark`."""
    return Header(
        benchmark=name,
        started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=shlex.join([*program, *without_secrets(sys.argv[1:])]),
        machine=machine(),
        versions=versions(),
        settings={
            key: str(value) if isinstance(value, Path) else value
            for key, value in asdict(benchmark).items()
            if isinstance(value, Path | Plain)
        },
    )


def machine() -> Machine:
    return Machine(
        cpu=_model_of_cpu() or platform.processor() or "unknown",
        cores=cores(),
        memory_gb=round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1),
        system=platform.platform(),
        load_average=round(os.getloadavg()[0], 2),
    )


def cores() -> int:
    return len(os.sched_getaffinity(0))


def versions() -> dict[str, str]:
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            installed[package] = metadata.version(package)
    return installed


def without_secrets(arguments: Sequence[str]) -> list[str]:
    """Return a command line in which the values of secret flags are replaced by `***`."""
    shown: list[str] = []
    for argument in arguments:
        flag, equals, _ = argument.partition("=")
        if equals and _is_secret(flag):
            argument = f"{flag}=***"
        elif shown and _is_secret(shown[-1]):
            argument = "***"
        shown.append(argument)
    return shown


def _is_secret(flag: str) -> bool:
    # argparse takes the beginning of a flag for the flag.
    return len(flag) > 2 and any(name.startswith(flag) for name in SECRET_FLAGS)


def _model_of_cpu() -> str:
    match = re.search(r"^model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1] if match else ""


def origin(header: Header, what: str, audio_s: float) -> str:
    """Return a line on the origin of the figures; `what` is number and kind of the recordings."""
    return f"{what}, {audio_s:.0f} s of audio; {machine_line(header)}"


def machine_line(header: Header) -> str:
    machine, versions = header.machine, header.versions
    return (
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gb:g} GB; "
        f"Triton {versions['triton']}, Python {versions['python']}, "
        f"conch {versions.get('conch', 'from source')}; {header.started_at}"
    )
