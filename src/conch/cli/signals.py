"""Signals that end a program in order."""

import signal
from types import FrameType


def interrupt_on_sigterm() -> None:
    """Make SIGTERM what Ctrl-C is: otherwise servers, children and folders are left behind."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, on_signal)
