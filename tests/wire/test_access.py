"""Lines of the access log: for Triton's log, for people, and the ids in them."""

import json
import logging

import pytest

from conch.wire import access

RECORDING = {
    "request": "order-7",
    "model": "speech",
    "mode": "offline",
    "outcome": "INVALID_OPTION",
    "audio_s": 0.0,
    "ms": 3.4,
    "rows": 2,
    "path": [],
    "error": "option 'nbest' takes an integer from 1",
}


def test_a_line_comes_back_from_the_log_of_a_server():
    line = access.to_line({**RECORDING, "error": 'a\n"b"'})
    assert "\n" not in line
    assert access.from_line(line) == {**RECORDING, "error": 'a\n"b"'}


@pytest.mark.parametrize(
    "text",
    [
        "access to all",
        "access {broken",
        'access ["request"]',
        'access {"request": "a", "ms": "late"}',
        'access {"request": "a", "route": "/"}',
        'access {"request": "a", "path": 3}',
        "access {}",
        '{"request": 1}',
    ],
)
def test_other_text_is_no_line_of_the_access_log(text):
    assert access.from_line(text) is None


def test_people_read_a_short_line():
    assert access.short(RECORDING) == (
        "speech INVALID_OPTION in 0.003 s, offline, 0.0 s of audio, 2 rows, request order-7: "
        "option 'nbest' takes an integer from 1"
    )
    asked = {"request": "a", "method": "GET", "route": "/v1/models", "status": 200, "key": "anna"}
    assert access.short({**asked, "ms": 1500.0}) == (
        "GET /v1/models 200 in 1.500 s, key anna, request a"
    )


def test_a_request_without_an_id_gets_one():
    first, second = access.request_id_of(""), access.request_id_of("")
    assert first != second
    assert access.SAFE_ID.fullmatch(first)


def test_an_id_of_the_most_characters_stays_and_a_longer_one_is_cut():
    assert access.request_id_of("a" * 128) == "a" * 128
    assert access.request_id_of("a" * 129) == "a" * 128


def test_a_record_carries_its_fields(caplog):
    with caplog.at_level(logging.INFO):
        access.log_access(RECORDING)
        access.log_access(RECORDING, logging.DEBUG)
    (record,) = caplog.records
    assert access.fields_of(record) == RECORDING
    assert json.loads(access.to_line(RECORDING).partition(" ")[2]) == RECORDING
