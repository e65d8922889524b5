"""Convert exceptions to errors of Triton."""

from typing import Any

import triton_python_backend_utils as pb_utils

from conch.wire.errors import public_error, to_wire


def triton_error(error: Exception) -> Any:
    """Return the `TritonError` that a client gets for an exception.

    Its text begins with a code, because several kinds of errors share a status, and a streamed
    answer has no status.
    """
    public = public_error(error)
    return pb_utils.TritonError(to_wire(public), getattr(pb_utils.TritonError, public.status))
