"""The log of a command, on stderr: for people, or one JSON object a line."""

import argparse
import json
import logging
import re
import sys
from collections.abc import Callable
from datetime import datetime, timezone

from conch.cli.arguments import add_flags
from conch.wire.access import fields_of
from conch.wire.errors import ConchError

_LOGGER = logging.getLogger("conch")

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters that move a terminal's cursor or begin a line, except tab and newline."""


class TextFormatter(logging.Formatter):
    """Lines for people. What a message quotes cannot look like a line of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record).rstrip("\n").replace("\n", "\n    ")
        return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


class JsonFormatter(logging.Formatter):
    """Objects with `time` (RFC 3339, UTC), `level`, `logger` and `message`.

    A line of the server has `source`, its file and line there. A line of the access log has the
    fields of `conch.wire.access`. An exception is in `traceback`.
    """

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, timezone.utc)
        line = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if source := getattr(record, "source", None):
            line["source"] = source
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        # Fields from another process must not replace those of every line.
        return json.dumps({**line, **(fields_of(record) or {}), **line})


FLAGS = """
--log-level {debug,info,warning,error}=info  least severe line of the log to show, on stderr
--log-format {text,json}=text                json writes one object a line
"""


def add_log_flags(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, FLAGS)
    parser.add_argument(
        "--access-log",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="a line for each recording, live stream and request, at level info",
    )


def with_log(args: argparse.Namespace, run: Callable[[], int]) -> int:
    """Run a command with Conch's log, and warnings of its libraries, on stderr.

    A ConchError of the command is raised. With JSON it goes to the log, and 1 is returned.
    """
    is_json = args.log_format == "json"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if is_json else TextFormatter())
    if not args.access_log:
        handler.addFilter(lambda record: fields_of(record) is None)
    root, before = logging.getLogger(), _LOGGER.level
    root.addHandler(handler)
    _LOGGER.setLevel(args.log_level.upper())
    try:
        return run()
    except ConchError as error:
        if not is_json:
            raise
        _LOGGER.error("%s", error)
        return 1
    finally:
        root.removeHandler(handler)
        _LOGGER.setLevel(before)


def announce(args: argparse.Namespace, text: str) -> None:
    """Report that a command is ready: on stdout, or in the JSON log."""
    if args.log_format == "json":
        _LOGGER.info("%s", text)
    else:
        print(text, flush=True)
