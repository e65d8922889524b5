"""Errors as Triton carries them."""

import logging

import pytest
from plain_triton import TritonError

from conch.triton.requests import triton_error
from conch.wire.errors import (
    AudioError,
    ComponentError,
    DeadlineError,
    InvalidRequestError,
    MissingModelError,
    OptionError,
    OverloadedError,
    RequestCancelledError,
    SessionError,
    from_wire,
)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidRequestError("bad"), TritonError.INVALID_ARG),
        (OptionError("bad"), TritonError.INVALID_ARG),
        (AudioError("bad"), TritonError.INVALID_ARG),
        (SessionError("bad"), TritonError.INVALID_ARG),
        (OverloadedError("full"), TritonError.UNAVAILABLE),
        (DeadlineError("late"), TritonError.UNAVAILABLE),
        (MissingModelError("not loaded", "vad"), TritonError.UNAVAILABLE),
        (RequestCancelledError("gone"), TritonError.CANCELLED),
        (ComponentError("vad: broken"), TritonError.INTERNAL),
    ],
)
def test_an_error_has_its_status_and_its_code(error, status):
    sent = triton_error(error)
    assert sent.code() == status
    assert type(from_wire(sent.message())) is type(error)


def test_a_defect_is_logged_and_its_words_stay_in_the_server(caplog):
    with caplog.at_level(logging.ERROR):
        sent = triton_error(KeyError("a path of the server: /srv/weights"))
    assert sent.code() == TritonError.INTERNAL
    assert "/srv/weights" not in sent.message()
    assert "KeyError" not in sent.message()
    assert sent.message().startswith("INTERNAL: internal error")
    assert sent.message().split()[-1] in caplog.text
    assert "/srv/weights" in caplog.text
