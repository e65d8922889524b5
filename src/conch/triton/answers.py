"""Send the answers of requests from threads of their own, in order."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any

logger = logging.getLogger(__name__)

THREADS = 4
SLOW_S = 0.05
"""Time to hand over an answer that is long: it took a thread of Triton's pool that was not free."""


class Answers:
    """Hands answers to Triton, which may take a while: each waits for a thread of Triton's pool.

    The answers of one request go through one thread, so they keep their order.
    """

    def __init__(self) -> None:
        """Start the threads."""
        self._threads = [
            ThreadPoolExecutor(1, thread_name_prefix=f"answers-{number}")
            for number in range(THREADS)
        ]
        self._numbers = count()
        self._has_warned = threading.Event()

    def through(self, sender: Any) -> Callable[..., None]:
        """Return what sends through a response sender, later and without waiting for it.

        Args:
            sender: The response sender of one request.
        """
        thread = self._threads[next(self._numbers) % THREADS]

        def send(*response: Any, **flags: int) -> None:
            thread.submit(self._send, sender, response, flags).add_done_callback(_log_failure)

        return send

    def close(self) -> None:
        """Send what is left, and stop the threads."""
        for thread in self._threads:
            thread.shutdown()

    def _send(self, sender: Any, response: tuple[Any, ...], flags: dict[str, int]) -> None:
        began = time.monotonic()
        sender.send(*response, **flags)
        took_s = time.monotonic() - began
        if took_s > SLOW_S and not self._has_warned.is_set():
            self._has_warned.set()  # once: it says the same each time
            logger.warning(
                "an answer took %.0f ms to be handed to Triton. If this machine is not overloaded, "
                "Triton has too few threads: --backend-config=python,thread-pool-size=N, with N "
                "above the parameter max_calls_in_flight of this model",
                1000 * took_s,
            )


def _log_failure(sent: "Future[None]") -> None:
    if error := sent.exception():
        logger.error("an answer could not be sent", exc_info=error)
