"""Give memory that a model's process has freed back to the system.

glibc keeps freed memory for later. Loading frees up to 20 MB, and a call the activations of its
batch: 30 to 60 MB for a segment.
"""

import ctypes
import threading
import time
from collections.abc import Callable

IDLE_S = 10.0
"""Seconds without a call after which a process gives back what it has freed. Each return costs the
next call some milliseconds, so it does not come between the chunks of a stream."""
MANY_ENDED = 32
"""Ended streams after which a process that is never idle does so too: 200 MB in
`ctc_streaming_encoder`, 6 MB in `speech`."""


def trim() -> None:
    ctypes.CDLL(None).malloc_trim(0)


class IdleWatch:
    """Runs a function after `idle_s` seconds without a call, once for each busy time.

    Within a busy time it runs after MANY_ENDED streams, once in `idle_s` at most.
    """

    def __init__(self, then: Callable[[], None], idle_s: float) -> None:
        self._then, self._idle_s = then, idle_s
        self._num_ended = 0
        """Streams that have ended since the function ran."""
        self._called = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def called(self, num_ended: int = 0) -> None:
        self._called.set()
        with self._lock:
            self._num_ended += num_ended
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="idle watch", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._called.wait()
            # Looking once in a while costs less than to be woken by each call.
            while self._called.is_set():
                self._called.clear()
                time.sleep(self._idle_s)
                if self._num_ended >= MANY_ENDED:
                    self._give_back()
            self._give_back()

    def _give_back(self) -> None:
        with self._lock:
            self._num_ended = 0
        self._then()


watch = IdleWatch(trim, IDLE_S)
