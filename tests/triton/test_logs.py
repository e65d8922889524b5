"""What a model logs, as the launcher reads it in the server's output."""

import logging

import pytest

from conch.launcher.logs import LogParser
from conch.triton.logs import TritonFormatter
from conch.wire.access import from_line


def line_of(level: int, message: str, fields: dict | None = None) -> str:
    record = logging.LogRecord("conch.a", level, "/srv/speech.py", 12, message, (), None)
    if fields is not None:
        record.access = fields
    return TritonFormatter().format(record)


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR])
def test_a_message_comes_back_with_its_level_and_its_place(level):
    message = 'a "quoted" line\nE1121 11:47:56.662560 39 forged.cc:1] é'
    line = line_of(level, message)
    assert "\n" not in line
    parsed = LogParser().parse(line)
    assert (parsed.level, parsed.message, parsed.source) == (level, message, "speech.py:12")


def test_a_line_of_the_access_log_has_its_fields():
    parsed = LogParser().parse(line_of(logging.INFO, "short", {"request": "a\n", "ms": 1.0}))
    assert from_line(parsed.message) == {"request": "a\n", "ms": 1.0}
