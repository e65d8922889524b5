"""Explain in one sentence, from its log, why a server did not start."""

import logging
import re
import signal
from collections.abc import Sequence

from conch.launcher.logs import LogLine, tail

_MODEL_FAILURES = (
    re.compile(r"failed to load '(?P<name>[^']+)' version \d+: (?P<reason>.*)", re.DOTALL),
    re.compile(r"Poll failed for model directory '(?P<name>[^']+)': (?P<reason>.*)", re.DOTALL),
    re.compile(r"failed to poll model '(?P<name>[^']+)': (?P<reason>.*)", re.DOTALL),
)
_LOADING = re.compile(r"loading: (?P<name>.+):\d+")
_LOADED = re.compile(r"successfully loaded '(?P<name>[^']+)'")
_STUB_START = re.compile(r"Failed to preinitialize Python stub: (?P<reason>.*)", re.DOTALL)
_PROTOBUF = re.compile(r"\[libprotobuf ERROR [^\]]*\] (?P<reason>.*)")
_USAGE = re.compile(r".*(unrecognized option|Invalid option value|requires an argument|^error: ).*")
_STATUS = re.compile(r"(Internal|Invalid argument|Unavailable|Unknown|Not found)( - |: )")
_SUMMARY = "failed to load all models"
"""Triton's own summary, useless where the cause is known."""


def lost_port_race(lines: Sequence[LogLine]) -> bool:
    """Report whether another program took a port between its choice and the server's start."""
    return any("already in use" in line.message for line in lines)


def stub_failure(lines: Sequence[LogLine]) -> str | None:
    """Return why a stub gave up early, None if none did.

    After this failure Triton neither answers nor exits.
    """
    for line in lines:
        if match := _STUB_START.search(line.message):
            return f"a Python model cannot be started: {shorten(match['reason'])}"
    return None


def models_failed(lines: Sequence[LogLine]) -> dict[str, str]:
    """Return the reason, by name, of each model that did not load."""
    failures: dict[str, str] = {}
    for line in lines:
        for pattern in _MODEL_FAILURES:
            if match := pattern.search(line.message):
                failures[match["name"]] = _detailed(shorten(match["reason"]), lines)
    return failures


def models_loading(lines: Sequence[LogLine]) -> list[str]:
    """Return the names of the models that have begun to load but not finished."""
    pending: dict[str, None] = {}
    for line in lines:
        if match := _LOADING.fullmatch(line.message):
            pending[match["name"]] = None
        elif match := _LOADED.fullmatch(line.message):
            pending.pop(match["name"], None)
    return list(pending)


def shorten(reason: str) -> str:
    """Return the exception and the innermost place of a Python model's traceback."""
    reason = _STATUS.sub("", reason, count=1) if _STATUS.match(reason) else reason
    head, _, places = reason.partition("\n\nAt:\n")
    heads = [line.strip() for line in head.splitlines() if line.strip()]
    if heads and heads[0].startswith("Traceback"):
        heads = heads[-1:]
    place = places.strip().partition("\n")[0].strip()
    return " ".join(heads) + (f" (at {place})" if place else "")


def explain_exit(lines: Sequence[LogLine], returncode: int | None) -> str:
    """Return in one sentence why the server ended, else the last lines of its log."""
    if failures := models_failed(lines):
        return "; ".join(f"model '{name}' failed to load: {why}" for name, why in failures.items())
    if reason := stub_failure(lines):
        return reason
    usage = [line.message for line in lines if line.source is None and _USAGE.match(line.message)]
    if usage and _SUMMARY not in usage[0]:
        return f"tritonserver refused to start: {usage[0]}"
    errors = [line.message for line in lines if line.level >= logging.ERROR]
    if errors:
        return f"tritonserver ended ({describe_exit(returncode)}): {shorten(errors[-1])}"
    last = tail(lines, 5)
    ending = f"; the last lines of its log:\n{last}" if last else "; its log is empty"
    return f"tritonserver ended ({describe_exit(returncode)}){ending}"


def describe_exit(returncode: int | None) -> str:
    if returncode is None:
        return "still running"
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"


def _detailed(reason: str, lines: Sequence[LogLine]) -> str:
    """Return a reason with the detail that Triton logs on another line."""
    if "text proto" in reason:
        for line in lines:
            if match := _PROTOBUF.match(line.message):
                return f"{reason}: {match['reason']}"
    if "is not healthy" in reason:
        printed = _printed_before(reason, lines)
        return f"{reason} Its process died{f', having printed: {printed}' if printed else ''}"
    return reason


def _printed_before(reason: str, lines: Sequence[LogLine]) -> str:
    printed = []
    for line in lines:
        if reason in line.message:
            break
        if line.source is None and line.level >= logging.INFO:
            printed.append(line)
    return tail(printed, 3).replace("\n", " | ")
