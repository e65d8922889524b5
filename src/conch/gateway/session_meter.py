"""What a live session uses and how soon its text comes, for limits and metrics."""

import time

from conch.gateway.state import Caller, Gateway


class SessionMeter:
    """The meter of one live session."""

    def __init__(self, gateway: Gateway, caller: Caller, route: str) -> None:
        """Begin without audio and text."""
        self._gateway, self._caller, self._route = gateway, caller, route
        self._charged_s = 0.0
        self._first_audio_at: float | None = None
        self._has_text = False

    def audio_came(self) -> None:
        """Note that there is audio."""
        if self._first_audio_at is None:
            self._first_audio_at = time.monotonic()

    def text_came(self) -> None:
        """Measure how long the first text took."""
        if not self._has_text and self._first_audio_at is not None:
            self._has_text = True
            seconds = time.monotonic() - self._first_audio_at
            self._gateway.metrics.first_text_seconds.labels(self._route).observe(seconds)

    def charge(self, audio_s: float, *, is_closing: bool) -> None:
        """Count what was heard since the last time.

        Args:
            audio_s: Seconds of audio that were heard so far.
            is_closing: Whether no more audio is taken; what is left is heard in any case.

        Raises:
            ApiError: the caller has used up a limit.
        """
        if audio_s > self._charged_s:
            self._gateway.heard(self._caller, self._route, audio_s - self._charged_s)
            self._charged_s = audio_s
            if not is_closing:
                self._gateway.check_audio(self._caller)
