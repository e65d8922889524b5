"""Count what a server holds, and what it leaves when it has ended."""

import re
import socket
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from conch.processes import STUB
from lab.chaos.doors import Addresses

DECODER = "decoders of audio"
"""Role of processes of which a few are kept for the next file."""
SHARED_MEMORY = Path("/dev/shm")
NAME = re.compile("conch-[0-9a-f]{12}")
FEW = 12
"""Descriptors, or threads, by which a process may differ: pools grow with their load."""


@dataclass(frozen=True, slots=True)
class Census:
    processes: Mapping[str, int]
    """Number of processes by role: `conch serve`, `tritonserver`, or a model."""
    descriptors: Mapping[str, int]
    """Open files and sockets by role."""
    threads: Mapping[str, int]
    segments: int
    streams: int = 0


def census(root: int, streams: int) -> Census:
    counts: tuple[Counter[str], ...] = (Counter(), Counter(), Counter())
    names = set()
    for process in [psutil.Process(root), *psutil.Process(root).children(recursive=True)]:
        try:
            role, command = _role(process), process.cmdline()
            values = (1, process.num_fds(), process.num_threads())
        except psutil.Error:
            continue  # it has ended
        for counter, value in zip(counts, values, strict=True):
            counter[role] += value
        names |= names_in(command)
    segments = sum(len(segments_of(name)) for name in names)
    processes, descriptors, threads = map(dict, counts)
    return Census(processes, descriptors, threads, segments, streams)


def names_in(command: Iterable[str]) -> set[str]:
    """Return the names of servers in a command line: `conch-` and twelve digits.

    >>> names_in(["stub", "/x/model.py", "conch-0123456789ab-region"])
    {'conch-0123456789ab'}
    """
    return {name for part in command for name in NAME.findall(part)}


def segments_of(name: str) -> list[str]:
    return [item.name for item in SHARED_MEMORY.glob(f"{name}*")]


def grown(before: Census, after: Census) -> list[str]:
    growth = []
    if after.streams > before.streams:
        growth.append(f"{after.streams} live streams are open, {before.streams} before")
    if after.segments > before.segments:
        growth.append(f"{after.segments} segments of shared memory, {before.segments} before")
    now, then = (
        {role: count for role, count in held.processes.items() if role != DECODER}
        for held in (after, before)
    )
    if now != then:
        growth.append(f"processes {now}, before {then}")
    for what in ("descriptors", "threads"):
        counts: Mapping[str, int] = getattr(after, what)
        earlier: Mapping[str, int] = getattr(before, what)
        growth += [
            f"{role} has {count} {what}, {earlier[role]} before"
            for role, count in counts.items()
            if role in earlier and count > earlier[role] + FEW
        ]
    return growth


def left_over(names: Iterable[str], addresses: Addresses) -> list[str]:
    """Return what a server that has ended left on the machine, in words."""
    leftovers = [f"shared memory {item}" for name in names for item in segments_of(name)]
    wanted = set(names)
    for process in psutil.process_iter(["cmdline"]):
        if names_in(process.info["cmdline"] or ()) & wanted:
            leftovers.append(f"process {process.pid}")
    for port in ("http", "grpc", "metrics", "gateway"):
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(addresses.of(port)) == 0:
                leftovers.append(f"something listens on the port of {port}")
    return leftovers


def server_names(root: int) -> set[str]:
    names: set[str] = set()
    for process in psutil.Process(root).children(recursive=True):
        try:
            names |= names_in(process.cmdline())
        except psutil.Error:
            continue  # it has ended
    return names


def _role(process: psutil.Process) -> str:
    command = process.cmdline()
    name = Path(command[0]).name if command else process.name()
    if "conch.audio.worker" in command:
        return DECODER
    if name == STUB:
        return Path(command[1]).parts[-3]
    return "tritonserver" if name == "tritonserver" else "conch serve"
