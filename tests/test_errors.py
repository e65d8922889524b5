"""Errors on the wire: a code, and a text."""

import logging

import pytest

from conch.wire import errors
from conch.wire.errors import (
    ComponentError,
    InternalError,
    MissingModelError,
    OptionError,
    OverloadedError,
    TranscriptionError,
    from_wire,
    out_of_shared_memory,
    public_error,
    to_wire,
)

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, TranscriptionError)
    and kind is not TranscriptionError
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_read_back_as_it_was_written(kind):
    found = from_wire(to_wire(kind("what went wrong: 2 of 3\nlines (vad): all")))
    assert type(found) is kind
    assert str(found) == "what went wrong: 2 of 3\nlines (vad): all"


@pytest.mark.parametrize(("seconds", "expected"), [(12, 12), (0, 1), (-3, 1), (86_400, 86_400)])
def test_an_overload_says_when_to_try_again_in_its_text(seconds, expected):
    found = from_wire(to_wire(OverloadedError.until("the queue is long", seconds)))
    assert isinstance(found, OverloadedError)
    assert found.retry_after_s == expected
    assert str(found) == f"the queue is long; try again in {expected} s"


@pytest.mark.parametrize(
    "text", ["full; try again", "full; try again in an hour", "try again in 5 s", ""]
)
def test_an_overload_need_not_say_when(text):
    assert OverloadedError(text).retry_after_s is None


def test_every_kind_has_a_code_of_its_own():
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes) == 13


def test_a_text_begins_with_the_code_and_is_readable():
    assert to_wire(OptionError("option 'nbest' takes 1; sent: 0")) == (
        "INVALID_OPTION: option 'nbest' takes 1; sent: 0"
    )
    missing = from_wire(to_wire(MissingModelError("model vad is not loaded", "vad")))
    assert isinstance(missing, MissingModelError)
    assert (missing.model, str(missing)) == ("vad", "model vad is not loaded")


@pytest.mark.parametrize(
    "text",
    [
        "option 'nbest' takes 1",
        "deadline of 10 ms",
        "NOT_OURS: option 'nbest' takes 1",
        "in ensemble 'x', INVALID_OPTION: option 'nbest' takes 1",
        "",
    ],
)
def test_what_has_no_code_of_ours_is_none_of_our_errors(text):
    assert from_wire(text) is None


def test_a_defect_is_reported_by_a_reference_to_the_log_alone(caplog):
    with caplog.at_level(logging.ERROR):
        public = public_error(ValueError("/etc/secret of a user"))
    assert type(public) is InternalError
    assert not isinstance(public, ComponentError)
    assert "secret" not in str(public)
    reference = str(public).split()[-1]
    assert f"internal error {reference}" in caplog.text
    assert "/etc/secret of a user" in caplog.text


NO_ROOM = (
    "Failed to increase the shared memory pool size for key 'conch-1a2b3c4d5e6f-aec0f4a1-0f5c' "
    "to 52428800 bytes. If you are running Triton inside docker, use '--shm-size' flag"
)


def test_the_name_of_a_segment_reaches_no_client(caplog):
    found = out_of_shared_memory(NO_ROOM), public_error(RuntimeError(NO_ROOM))
    for error in found:
        assert isinstance(error, OverloadedError)
        assert str(error).startswith("the server is out of shared memory: ")
    assert "conch-1a2b3c" not in caplog.text
    assert out_of_shared_memory("Request timeout expired") is None


def test_an_error_of_ours_may_be_reported_as_it_is(caplog):
    error = OptionError("option 'nbest' takes 1")
    assert public_error(error) is error
    assert not caplog.records
