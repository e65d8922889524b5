"""The address that a client may have meant by one that does not exist."""

import difflib
from collections.abc import Collection

_ELSEWHERE = {
    "/asr": "/v1/audio/transcriptions",
    "/inference": "/v1/audio/transcriptions",
    "/transcribe": "/v1/audio/transcriptions",
    "/health": "/health/ready",
    "/healthz": "/health/live",
}
"""Addresses here by those of other speech servers and of Kubernetes."""


def meant_by(path: str, known: Collection[str]) -> str:
    """Return the known path that a wrong one is close to, or "".

    >>> meant_by("/audio/transcriptions/", ["/v1/audio/transcriptions", "/v1/models"])
    '/v1/audio/transcriptions'
    """
    bare = "/" + "/".join(filter(None, path.lower().split("/")))
    if bare in _ELSEWHERE:
        return _ELSEWHERE[bare]
    end = bare.removeprefix("/v1")
    if end.strip("/") and (whole := next((item for item in known if item.endswith(end)), "")):
        return whole
    close = difflib.get_close_matches(bare[:200], known, n=1, cutoff=0.87)
    return close[0] if close else ""
