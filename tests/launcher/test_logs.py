"""Reading the server's log, and explaining a failed start from it."""

import io
import logging

import pytest

from conch.launcher import logs
from conch.launcher.logs import TAIL_LINES, LogLine, LogParser, LogReader, tail, unquote
from conch.wire.access import to_line

# --- log ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            'I1121 11:47:56.662560 3939 model_lifecycle.cc:472] "loading: ident:1"',
            LogLine(logging.INFO, "loading: ident:1", "model_lifecycle.cc:472"),
        ),
        (
            r'W1121 11:47:56.978773 3939 model.py:5] "a \"warn\"\nsecond line"',
            LogLine(logging.WARNING, 'a "warn"\nsecond line', "model.py:5"),
        ),
        (
            "E1121 11:52:23.912582567    5815 chttp2_server.cc:1060]      UNKNOWN:No address",
            LogLine(logging.ERROR, "UNKNOWN:No address", "chttp2_server.cc:1060"),
        ),
        (
            "I1121 11:53:26.332989 6293 pb_stub.cc:366]  Failed to initialize Python stub",
            LogLine(logging.DEBUG, "Failed to initialize Python stub", "pb_stub.cc:366"),
        ),
        ("printed by a model", LogLine(logging.INFO, "printed by a model", None)),
        ("", None),
    ],
)
def test_parse_line(raw: str, expected: LogLine | None) -> None:
    assert LogParser().parse(raw) == expected


def test_tables_and_the_end_of_a_failed_start_are_details() -> None:
    parser = LogParser()
    assert parser.parse("E1121 11:47:56.987342 3939 server.cc:674] ") is None
    raw = ["| ident | 1 | READY  |", "said", "error: creating server: Internal - x", "At:"]
    lines = [parser.parse(line) for line in raw]
    levels = [logging.DEBUG, logging.INFO, logging.DEBUG, logging.DEBUG]
    assert lines == [LogLine(*item) for item in zip(levels, raw, strict=True)]


def test_missing_gpu_is_no_warning() -> None:
    raw = 'E1121 11:47:56.661410 3939 server.cc:241] "CudaDriverHelper has not been initialized."'
    line = LogParser().parse(raw)
    assert line is not None
    assert line.level == logging.DEBUG


@pytest.mark.parametrize(
    ("quoted", "plain"),
    [('"a\\tb"', "a\tb"), ('"broken \\x"', "broken \\x"), ("unquoted", "unquoted"), ('"', '"')],
)
def test_unquote(quoted: str, plain: str) -> None:
    assert unquote(quoted) == plain


# --- diagnosis ---------------------------------------------------------------------------------


def parse_all(*raw: str) -> list[LogLine]:
    parser = LogParser()
    return [line for line in map(parser.parse, raw) if line is not None]


def test_explain_failed_model_names_it_and_its_reason() -> None:
    lines = parse_all(
        'I1121 11:47:57.167945 4578 model_lifecycle.cc:472] "loading: bad:1"',
        "E1121 11:47:57.512900 4578 model_lifecycle.cc:642] \"failed to load 'bad' version 1: "
        "Internal: ValueError: the weights file 'x.bin' is missing\\n\\nAt:\\n  "
        '/models/bad/1/model.py(3): initialize\\n"',
        "error: creating server: Internal - failed to load all models",
    )
    assert logs.explain_exit(lines, 1) == (
        "model 'bad' failed to load: ValueError: the weights file 'x.bin' is missing "
        "(at /models/bad/1/model.py(3): initialize)"
    )


def test_explain_config_error_quotes_the_parser() -> None:
    lines = parse_all(
        '[libprotobuf ERROR /a/text_format.cc:337] Error parsing: has no field named "inputs".',
        'E1121 12:03:45.366614 9172 model_repository_manager.cc:1460] "Poll failed for model '
        "directory 'cfg': failed to read text proto from m/cfg/config.pbtxt\"",
    )
    assert logs.explain_exit(lines, 1) == (
        "model 'cfg' failed to load: failed to read text proto from m/cfg/config.pbtxt: "
        'Error parsing: has no field named "inputs".'
    )


def test_explain_dead_stub_quotes_what_it_printed() -> None:
    lines = parse_all(
        "libfoo.so: cannot open shared object file",
        "E1121 11:54:34.290716 6642 model_lifecycle.cc:642] \"failed to load 'ex' version 1: "
        "Internal: Stub process 'ex_0_0' is not healthy.\"",
        "error: creating server: Internal - failed to load all models",
    )
    assert logs.explain_exit(lines, 1).endswith(
        "having printed: libfoo.so: cannot open shared object file"
    )


def test_explain_wrong_option() -> None:
    lines = parse_all(
        "tritonserver: unrecognized option '--bogus'", "Usage: tritonserver [options]"
    )
    assert logs.explain_exit(lines, 1) == (
        "tritonserver refused to start: tritonserver: unrecognized option '--bogus'"
    )


def test_explain_signal_without_a_word() -> None:
    assert logs.explain_exit([], -9) == "tritonserver ended (killed by SIGKILL); its log is empty"


def test_shorten_python_traceback_to_its_last_line() -> None:
    reason = "Internal: Traceback (most recent call last):\n  File x\nKeyError: 'path'"
    assert logs.shorten(reason) == "KeyError: 'path'"


def test_lost_port_race() -> None:
    raw = (
        'E1121 11:52:22.455873 5647 main.cc:257] "failed to start HTTP service: Unavailable - '
        "Socket '127.0.0.1:39011' already in use \""
    )
    assert logs.lost_port_race(parse_all(raw))
    assert not logs.lost_port_race([])


def test_models_loading_are_those_not_loaded_yet() -> None:
    lines = parse_all(
        'I1121 11:47:56.662560 3939 model_lifecycle.cc:472] "loading: vad:1"',
        'I1121 11:47:56.662561 3939 model_lifecycle.cc:472] "loading: encoder:1"',
        "I1121 11:47:56.987219 3939 model_lifecycle.cc:839] \"successfully loaded 'vad'\"",
    )
    assert logs.models_loading(lines) == ["encoder"]


def test_a_tail_leaves_out_tables_and_the_access_log() -> None:
    fields = {"model": "speech", "outcome": "ok", "request": "req_1"}
    lines = [
        LogLine(logging.INFO, "loading: vad:1"),
        LogLine(logging.INFO, "| Model | Version |"),
        LogLine(logging.INFO, to_line(fields), "components.py:7"),
        LogLine(logging.INFO, "access to the disk failed"),
    ]
    assert tail(lines, 5) == "loading: vad:1\naccess to the disk failed"


def test_the_latest_lines_are_kept() -> None:
    written = "".join(f"line {number}\n" for number in range(TAIL_LINES + 5))
    log = LogReader(io.BytesIO(written.encode()), logging.INFO)
    log.join(10)
    assert [line.message for line in log.lines()] == [
        f"line {number}" for number in range(5, TAIL_LINES + 5)
    ]
