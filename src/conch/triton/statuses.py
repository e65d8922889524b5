"""Errors as clients see them."""

from typing import Any

import triton_python_backend_utils as pb_utils

from conch.wire.errors import public_error, to_wire


def triton_error(error: Exception) -> Any:
    """Return an exception as the `TritonError` that a client sees.

    Its text begins with a code, because a status tells several kinds of errors alike and an answer
    in parts carries none.
    """
    told = public_error(error)
    return pb_utils.TritonError(to_wire(told), getattr(pb_utils.TritonError, told.status))
