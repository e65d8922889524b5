"""The log of a command as text and as JSON."""

import argparse
import json
import logging
import re

import pytest

from conch.cli.logs import add_log_flags, announce, with_log
from conch.launcher.logs import LogReader
from conch.wire.access import log_access, to_line
from conch.wire.errors import ServerError

LOGGER = logging.getLogger("conch.test")
FIELDS = {"request": "order-7", "model": "speech", "mode": "offline", "outcome": "ok", "ms": 812.0}
FORGED = 'it is "a\n2026-11-23 17:54:10,870 INFO    forged\x1b[2J\r"'


def flags(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_log_flags(parser)
    return parser.parse_args(arguments)


def written(capsys: pytest.CaptureFixture[str], log, *arguments: str) -> list[str]:
    """Return the lines on stderr of a command that logs."""

    def run() -> int:
        log()
        return 0

    assert with_log(flags(*arguments), run) == 0
    return capsys.readouterr().err.splitlines()


def test_every_record_is_an_object_on_a_line_of_its_own(capsys):
    def log():
        LOGGER.info("said: %s", FORGED)
        log_access(FIELDS)
        logging.getLogger("another.library").warning("careful")
        try:
            raise ValueError("why")
        except ValueError:
            LOGGER.exception("failed")

    said, access, careful, failed = map(json.loads, written(capsys, log, "--log-format", "json"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", said.pop("time"))
    assert said == {"level": "info", "logger": "conch.test", "message": f"said: {FORGED}"}
    assert FIELDS.items() <= access.items()
    assert access["logger"] == "conch.access"
    assert (careful["level"], careful["message"]) == ("warning", "careful")
    assert failed["traceback"].endswith("ValueError: why")


def test_no_field_takes_the_place_of_what_every_line_has(capsys):
    forged = {**FIELDS, "level": "error", "time": "never", "logger": "mine"}
    (line,) = map(json.loads, written(capsys, lambda: log_access(forged), "--log-format", "json"))
    assert (line["level"], line["logger"]) == ("info", "conch.access")
    assert line["time"] != "never"
    assert list(line)[:4] == ["time", "level", "logger", "message"]


def test_what_a_message_quotes_is_no_line_of_its_own_in_text(capsys):
    first, second = written(capsys, lambda: LOGGER.info("said: %s", FORGED))
    assert first.endswith('INFO    said: it is "a')
    assert second == r'    2026-11-23 17:54:10,870 INFO    forged\x1b[2J\r"'


def test_the_access_log_is_short_as_text_and_can_be_left_out(capsys):
    (line,) = written(capsys, lambda: log_access(FIELDS))
    assert line.endswith("INFO    speech ok in 0.812 s, offline, request order-7")
    assert written(capsys, lambda: log_access(FIELDS), "--no-access-log") == []
    assert written(capsys, lambda: log_access(FIELDS), "--log-level", "warning") == []


def test_a_failure_is_told_by_the_log_if_that_is_json(capsys):
    def fail() -> int:
        raise ServerError("no port is free")

    assert with_log(flags("--log-format", "json"), fail) == 1
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["message"]) == ("error", "no port is free")
    with pytest.raises(ServerError):
        with_log(flags(), fail)


def test_readiness_is_told_on_stdout_or_in_a_log_of_json(capsys):
    announce(flags(), "ready")
    assert capsys.readouterr().out == "ready\n"
    args = flags("--log-format", "json")
    assert with_log(args, lambda: announce(args, "ready") or 0) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err)["message"] == "ready"


def test_lines_of_a_server_keep_their_fields_and_their_source(capsys, tmp_path):
    line = json.dumps(to_line(FIELDS))
    path = tmp_path / "log"
    path.write_text(
        'I1121 11:47:56.662560 3939 model_lifecycle.cc:472] "loading: speech:1"\n'
        f"I1121 11:47:56.662560 3939 logs.py:27] {line}\n"
        f"{to_line(FIELDS)}\n"
    )

    def log():
        with path.open("rb") as stream:
            LogReader(stream, logging.INFO).join(20)

    loading, access, printed = map(json.loads, written(capsys, log, "--log-format", "json"))
    assert loading["source"] == "model_lifecycle.cc:472"
    assert access["request"] == "order-7"
    # A line without a source may be what a library printed of a client's file.
    assert "request" not in printed
