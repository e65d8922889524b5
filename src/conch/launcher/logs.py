"""Read Triton's log line by line, and explain from it why a server did not start."""

import collections
import json
import logging
import re
import signal
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import IO

from conch.wire import access

LOGGER = logging.getLogger("conch.launcher")
# A library leaves it to the application whether log lines are shown.
logging.getLogger("conch").addHandler(logging.NullHandler())

TAIL_LINES = 1000
"""Lines kept. The usage text that Triton prints after a wrong option is shorter."""
_HEADER = re.compile(
    r"([VIWEF])\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+\s+(?P<source>[^\s:\]]+:\d+)\] ?(?P<message>.*)"
)
_LEVELS = {
    "V": logging.DEBUG,
    "I": logging.INFO,
    "W": logging.WARNING,
    "E": logging.ERROR,
    "F": logging.CRITICAL,
}

_NO_GPU = (
    "Unable to allocate pinned system memory",
    "CudaDriverHelper has not been initialized",
    "DCGM unable to start",
    "Error: Failed to initialize NVML",
)
"""Warnings and errors of every healthy start on a machine without a GPU."""
_DETAILS = (
    "TRITONBACKEND_ModelInstanceInitialize",
    "Failed to initialize Python stub",
    "ERROR: Failed to create instance",
)
"""Steps of each model's start, and what the error `failed to load` says again."""
_TABLE = ("+-", "| ")
_END = "error: creating server"
_TRACEBACK = "\n\nAt:\n"
"""In front of the places of a Python model's error, the innermost first."""
_MODEL_FAILURE = re.compile(
    r"(?:failed to load|Poll failed for model directory|failed to poll model) "
    r"'(?P<name>[^']+)'(?: version \d+)?: (?P<reason>.*)",
    re.DOTALL,
)
_LOADING = re.compile(r"loading: (?P<name>.+):\d+")
_LOADED = re.compile(r"successfully loaded '(?P<name>[^']+)'")
_STUB_START = re.compile(r"Failed to preinitialize Python stub: (?P<reason>.*)", re.DOTALL)
_PROTOBUF = re.compile(r"\[libprotobuf ERROR [^\]]*\] (?P<reason>.*)")
_USAGE = re.compile(r".*(unrecognized option|Invalid option value|requires an argument|^error: ).*")
_STATUS = re.compile(r"(Internal|Invalid argument|Unavailable|Unknown|Not found)( - |: )")
_SUMMARY = "failed to load all models"
"""Triton's own summary, useless where the cause is known."""


@dataclass(frozen=True)
class LogLine:
    """One message of the server, or one line that a model printed."""

    level: int

    message: str

    source: str | None = None
    """`file:line` in the server or model that logged it; None for printed output."""


class LogParser:
    """Parser of raw lines. Tables, and what comes with the end of a failed start, are details."""

    def __init__(self) -> None:
        self._has_failed = False

    def parse(self, line: str) -> LogLine | None:
        if match := _HEADER.fullmatch(line):
            message, level = unquote(match["message"]).strip(), _LEVELS[match[1]]
            return LogLine(_calmed(message, level), message, match["source"]) if message else None
        if not line.strip():
            return None
        self._has_failed |= line.startswith(_END)
        is_detail = self._has_failed or line.startswith(_TABLE)
        return LogLine(_calmed(line, logging.DEBUG if is_detail else logging.INFO), line)


def unquote(message: str) -> str:
    """Return a message without Triton's quotes; recent versions write JSON strings."""
    stripped = message.strip()
    if len(stripped) >= 2 and stripped[0] == stripped[-1] == '"':
        try:
            return str(json.loads(stripped, strict=False))
        except ValueError:
            return stripped[1:-1]
    return message


def _calmed(message: str, level: int) -> int:
    return logging.DEBUG if message.startswith((*_NO_GPU, *_DETAILS)) else level


class LogReader:
    """Reader of a server's output on a separate thread, until the last writer has gone.

    Reading must not stop while the server runs: a full pipe would block it.
    """

    def __init__(self, stream: IO[bytes], least_level: int) -> None:
        self._stream = stream
        self._least_level = least_level
        self._lock = threading.Lock()
        self._lines: collections.deque[LogLine] = collections.deque(maxlen=TAIL_LINES)
        self._thread = threading.Thread(target=self._run, name="triton-log", daemon=True)
        self._thread.start()

    def lines(self) -> list[LogLine]:
        with self._lock:
            return list(self._lines)

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._stream.close()

    def _run(self) -> None:
        parser = LogParser()
        for raw in self._stream:
            line = parser.parse(raw.decode("utf-8", "replace").rstrip("\r\n"))
            if line is not None:
                with self._lock:
                    self._lines.append(line)
                self._forward(line)

    def _forward(self, line: LogLine) -> None:
        if line.level < self._least_level:
            return
        # What a model prints without a source may quote a client.
        fields = access.from_line(line.message) if line.source else None
        if fields is not None:
            access.log_access(fields)
        else:
            message = line.message
            if self._least_level > logging.DEBUG:
                message = message.partition(_TRACEBACK)[0]
            LOGGER.log(line.level, "%s", message, extra={"source": line.source})


def tail(lines: Iterable[LogLine], count: int) -> str:
    kept = [
        line.message
        for line in lines
        if not line.message.startswith(_TABLE) and access.from_line(line.message) is None
    ]
    return "\n".join(kept[-count:])


def lost_port_race(lines: Sequence[LogLine]) -> bool:
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
    return {
        match["name"]: _detailed(shorten(match["reason"]), lines)
        for line in lines
        if (match := _MODEL_FAILURE.search(line.message))
    }


def models_loading(lines: Sequence[LogLine]) -> list[str]:
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
    head, _, trace = reason.partition(_TRACEBACK)
    heads = [line.strip() for line in head.splitlines() if line.strip()]
    if heads and heads[0].startswith("Traceback"):
        heads = heads[-1:]
    innermost = trace.strip().partition("\n")[0].strip()
    return " ".join(heads) + (f" (at {innermost})" if innermost else "")


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
    if "text proto" in reason:
        for line in lines:
            if match := _PROTOBUF.match(line.message):
                return f"{reason}: {match['reason']}"
    if "is not healthy" in reason:
        printed = _printed_before(reason, lines)
        return f"{reason} Its process died{f', having printed: {printed}' if printed else ''}"
    return reason


def _printed_before(reason: str, lines: Sequence[LogLine]) -> str:
    before = takewhile(lambda line: reason not in line.message, lines)
    printed = (line for line in before if line.source is None and line.level >= logging.INFO)
    return tail(printed, 3).replace("\n", " | ")
