"""What a client of the gateway is told of an error of the server."""

import pytest

from conch.gateway.errors import RETRY_AFTER_S, api_error
from conch.wire.errors import OverloadedError, from_wire, to_wire
from conch.wire.needs import missing, missing_post


@pytest.mark.parametrize(
    ("error", "seconds"),
    [(OverloadedError.until("12 s wait", 7), 7), (OverloadedError("streams"), RETRY_AFTER_S)],
)
def test_a_full_server_says_when_to_come_again(error, seconds):
    answer = api_error(from_wire(to_wire(error)))
    assert (answer.status, answer.code) == (503, "overloaded")
    assert answer.headers == {"Retry-After": str(seconds)}


@pytest.mark.parametrize(
    ("error", "field"), [(missing_post("mask"), "post"), (missing("rescorer"), "model")]
)
def test_a_missing_model_is_told_with_the_field_that_names_it(error, field):
    answer = api_error(from_wire(to_wire(error)))
    assert (answer.status, answer.code, answer.param) == (400, "model_not_loaded", field)
