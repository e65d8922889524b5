"""Errors over HTTP as Deepgram's clients read them."""

from typing import Any

from conch.gateway.errors import ApiError


def deepgrams_body(error: ApiError, request_id: str) -> dict[str, Any]:
    return {"err_code": code_of(error), "err_msg": str(error), "request_id": request_id}


def code_of(error: ApiError) -> str:
    return "INVALID_AUTH" if error.status == 401 else (error.code or error.type).upper()
