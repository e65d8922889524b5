"""One recording or live stream, from its first request to its line in the access log."""

import asyncio
import time
from collections.abc import Iterable

from conch.wire.access import MAX_ERROR, log_access
from conch.wire.errors import OverloadedError, RequestCancelledError, TranscriptionError
from conch.wire.result import Stage, Transcript

NO_MODE = "none"
"""Mode of a chunk that belongs to no stream."""


class Served:
    """What became of one recording or live stream so far.

    Its line has these fields: `request` (the id), `model`, `mode`, `outcome` (`ok`, the code of an
    error, or how else a live stream ended), `audio_s` and `ms` since its beginning, `rows` or
    `chunks`, `path` (components in order of first use), `calls` of them, `call_ms` in these, their
    queues included, and the `error`'s message.
    """

    def __init__(self, request_id: str, model: str, mode: str) -> None:
        """Start the clock.

        Args:
            request_id: Id of its first request, safe in a log.
            model: Name of the model that was asked.
            mode: Label of the path, as in the metrics.
        """
        self._request_id, self._model, self.mode = request_id, model, mode
        self._began = time.perf_counter()
        self._stages: dict[str, Stage] = {}
        self._is_logged = False
        self.audio_s = 0.0
        """Seconds of audio so far."""
        self.rows = 1
        """Rows of a recording's request."""
        self.chunks = 0
        """Chunks of a live stream that came so far; 0 for a recording."""

    def made(self, transcripts: Iterable[Transcript]) -> None:
        """Count the audio of transcripts, and the calls made for them."""
        for transcript in transcripts:
            self.audio_s += transcript.duration
            self.called(transcript)

    def called(self, transcript: Transcript) -> None:
        """Count the calls that were made for a transcript."""
        for model, stage in transcript.stages.items():
            if model != "total":
                own = self._stages.get(model, Stage(0, 0.0))
                self._stages[model] = Stage(own.calls + stage.calls, own.ms + stage.ms)

    def log(self, error: BaseException | None = None, outcome: str = "ok") -> None:
        """Write the line, unless it is written.

        Args:
            error: What ended it, None if nothing did.
            outcome: Field of the line if there was no error.
        """
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
            **({"chunks": self.chunks} if self.chunks else {"rows": self.rows}),
            "path": list(self._stages),
            "calls": sum(stage.calls for stage in stages),
            "call_ms": round(sum(stage.ms for stage in stages), 3),
        }
        # The message of another error may be a secret of the server; its log has it.
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
