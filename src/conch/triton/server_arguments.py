"""Find what a `tritonserver` lacks that `conch serve` has not started."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from conch.processes import settings_of
from conch.triton.messages import THREADS

POOL = "--backend-config"
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
    settings = defaultdict[str, list[str]](list)
    for option, value in settings_of(command[1:], {POOL, *PORTS, *PORTS.values()}):
        settings[option].append(value)
    lacks = []
    pool, wanted = _pool(settings[POOL]), max_calls_in_flight + THREADS
    if pool < wanted:
        lacks.append(
            f"--backend-config=python,thread-pool-size={wanted}: with {pool} threads, "
            f"{max_calls_in_flight} calls (max_calls_in_flight) and the answers wait for each other"
        )
    for port, option in PORTS.items():
        is_open = ["true", *settings[port]][-1].lower() not in ("false", "0")
        if is_open and SHARED_MEMORY not in " ".join(settings[option]):
            lacks.append(
                f"{option}={SHARED_MEMORY},model-repository,trace,logging:KEY=VALUE: any client "
                "can read other clients' audio and end the server"
            )
    if "OPENBLAS_NUM_THREADS" not in environment:
        lacks.append("OPENBLAS_NUM_THREADS=1 in its environment: idle threads spin")
    return lacks


def _pool(settings: Sequence[str]) -> int:
    start = "python,thread-pool-size="
    for value in reversed(settings):
        if value.startswith(start) and value.removeprefix(start).isdecimal():
            return int(value.removeprefix(start))
    return DEFAULT_POOL
