"""Keep the state of streams between their chunks, and expire idle streams."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from conch.wire.errors import ConfigError, SessionError

State = TypeVar("State")
StreamId = int | str


class Streams(Generic[State]):
    """The state of the open streams, by id.

    A stream ends with END, with another START of its id, or after `ttl_s` without a chunk. The
    expiry is needed because Triton's sequence batcher does not tell the model about idle sequences.
    """

    def __init__(self, new: Callable[[], State], ttl_s: float) -> None:
        if not ttl_s > 0:
            raise ConfigError(f"stream_ttl_s must be above 0; is: {ttl_s:g}")
        self._new, self._ttl_s = new, ttl_s
        self._open: dict[StreamId, tuple[State, float]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep, name="stream-sweep", daemon=True)
        self._sweeper.start()

    def __len__(self) -> int:
        return len(self._open)

    def take(self, stream_id: StreamId, *, starts: bool, ends: bool) -> State:
        """Return a stream's state for its next chunk; raise a SessionError if none is open.

        `starts` opens the stream, and replaces another with this id; `ends` closes it.
        """
        with self._lock:
            if starts:
                state = self._new()
            elif stream_id in self._open:
                state, _ = self._open[stream_id]
            else:
                raise SessionError(f"stream {stream_id} is expired or unknown; send START")
            if ends:
                self._open.pop(stream_id, None)
            else:
                self._open[stream_id] = state, time.monotonic()
        return state

    def drop(self, stream_id: StreamId) -> None:
        with self._lock:
            self._open.pop(stream_id, None)

    def close(self) -> None:
        """Stop the sweep and close all streams."""
        self._closing.set()
        self._sweeper.join()
        self._open.clear()

    def _sweep(self) -> None:
        while not self._closing.wait(self._ttl_s / 4):
            oldest = time.monotonic() - self._ttl_s
            with self._lock:
                for stream_id in [key for key, (_, used) in self._open.items() if used < oldest]:
                    del self._open[stream_id]
