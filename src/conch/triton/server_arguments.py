"""Find what a `tritonserver` lacks that `conch serve` has not started."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from conch.triton.messages import THREADS

DEFAULT_POOL = 32
"""Default number of the python backend's threads in each instance."""
SHARED_MEMORY = "shared-memory"
"""The API that reads other clients' audio."""
PORTS = {"--allow-http": "--http-restricted-api", "--allow-grpc": "--grpc-restricted-protocol"}
"""Option that opens a port to clients, and the one that restricts its APIs."""


def parents_command() -> list[str]:
    """Return the command line of the process that has started this one, empty if it is hidden."""
    try:
        return Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode().split("\0")[:-1]
    except OSError:
        return []


def missing_arguments(
    command: Sequence[str], environment: Mapping[str, str], max_calls_in_flight: int
) -> list[str]:
    """Return the settings that a `tritonserver` lacks, a sentence each; none for other programs."""
    if not command or Path(command[0]).name != "tritonserver":
        return []
    settings = _settings(command[1:])
    lacks = []
    pool, wanted = _pool(settings), max_calls_in_flight + THREADS
    if pool < wanted:
        lacks.append(
            f"--backend-config=python,thread-pool-size={wanted}: with {pool} threads, "
            f"{max_calls_in_flight} calls (max_calls_in_flight) and the answers wait for each other"
        )
    for port, option in PORTS.items():
        is_open = settings.get(port, ["true"])[-1].lower() not in ("false", "0")
        if is_open and SHARED_MEMORY not in " ".join(settings.get(option, [])):
            lacks.append(
                f"{option}={SHARED_MEMORY},model-repository,trace,logging:KEY=VALUE: any client "
                "can read other clients' audio and end the server"
            )
    if "OPENBLAS_NUM_THREADS" not in environment:
        lacks.append("OPENBLAS_NUM_THREADS=1 in its environment: idle threads spin")
    return lacks


def _settings(arguments: Sequence[str]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    name = ""
    for argument in arguments:
        if argument.startswith("--"):
            name, is_joined, value = argument.partition("=")
            values.setdefault(name, []).extend([value] if is_joined else [])
        elif name:
            values[name].append(argument)
    return values


def _pool(settings: Mapping[str, Sequence[str]]) -> int:
    start = "python,thread-pool-size="
    for value in reversed(settings.get("--backend-config", [])):
        if value.startswith(start) and value.removeprefix(start).isdecimal():
            return int(value.removeprefix(start))
    return DEFAULT_POOL
