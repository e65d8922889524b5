"""One line of the access log: a request, or a stream of requests, from its beginning to its end."""

import asyncio
import time
from collections.abc import Mapping

from conch.wire.access import MAX_ERROR, log_access
from conch.wire.errors import OverloadedError, RequestCancelledError, TranscriptionError
from conch.wire.result import Stage

NO_MODE = "none"
"""Mode of a request that has no path yet."""


class AccessRecord:
    """The line of a request or a stream in the access log, as it grows.

    Its line has these fields: `request` (the id), `model`, `mode`, `outcome` (`ok`, an error's
    code, or how a live stream ended), `audio_s`, `ms` since its beginning, the service's own
    fields, `path` (components in order of first use), `calls` (their number), `call_ms` (time in
    them, queues included), and `error` (the message).
    """

    def __init__(self, request_id: str, model: str, mode: str = NO_MODE) -> None:
        """`request_id` is safe in a log."""
        self._request_id, self._model, self.mode = request_id, model, mode
        self._began = time.perf_counter()
        self._stages: dict[str, Stage] = {}
        self._is_logged = False
        self.audio_s = 0.0
        self.fields: dict[str, int] = {}

    def called(self, stages: Mapping[str, Stage]) -> None:
        """Add the calls that were made for an answer, as `Calls.stages` counts them."""
        for model, stage in stages.items():
            if model != "total":
                self._stages[model] = self._stages.get(model, Stage(0, 0.0)) + stage

    def leave_out(self) -> None:
        """Write no line: the request is part of a stream, which has one, or a health check."""
        self._is_logged = True

    def log(self, error: BaseException | None = None, outcome: str = "ok") -> None:
        """Write the line, unless it is written; without an error it has `outcome`."""
        if self._is_logged:
            return
        self._is_logged = True
        stages = self._stages.values()
        fields = {
            "request": self._request_id,
            "model": self._model,
            "mode": self.mode,
            "outcome": outcome if error is None else code_of(error),
            "audio_s": round(self.audio_s, 3),
            "ms": round((time.perf_counter() - self._began) * 1000, 3),
            **self.fields,
            "path": list(self._stages),
            "calls": sum(stage.calls for stage in stages),
            "call_ms": round(sum(stage.ms for stage in stages), 3),
        }
        # The message of any other error may be confidential; only the server's log has it.
        if isinstance(error, TranscriptionError):
            fields["error"] = str(error)[:MAX_ERROR]
        log_access(fields)


def code_of(error: BaseException) -> str:
    """Return the code that the client gets for an error."""
    if isinstance(error, TranscriptionError):
        return error.code
    if isinstance(error, asyncio.CancelledError):  # the model is being unloaded
        return OverloadedError.code
    is_closed = isinstance(error, GeneratorExit)
    return RequestCancelledError.code if is_closed else TranscriptionError.code
