"""The line of the access log for one answer, over HTTP, gRPC and Wyoming."""

import logging

from conch.gateway.errors import ApiError
from conch.wire.access import MAX_ERROR, log_access


def log_answer(
    request_id: str,
    method: str,
    route: str,
    status: int | str,
    key: str,
    seconds: float,
    *,
    error: ApiError | None = None,
    is_cancelled: bool = False,
    level: int = logging.INFO,
) -> None:
    fields = {
        "request": request_id,
        "method": method,
        "route": route,
        "status": status,
        "key": key,
        "ms": round(seconds * 1000, 3),
        "outcome": "cancelled" if is_cancelled else "ok",
    }
    if error is not None:
        fields |= {"outcome": error.code or "error", "error": str(error)[:MAX_ERROR]}
    log_access(fields, level)
