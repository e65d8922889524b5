"""Signals that end a program cleanly."""

import signal
from types import FrameType


def interrupt_on_sigterm() -> None:
    """Handle SIGTERM like Ctrl-C, so that no server, child process or folder is left behind."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, on_signal)
