"""How much a key may use, how long a file may be, and what uploads may take of this machine."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from conch.audio.intake import length_of
from conch.gateway.errors import ApiError, overloaded

CGROUP = Path("/sys/fs/cgroup")
"""Folder of the control group of the container that this process runs in."""
UPLOAD_SHARE = 0.25
"""Share of the memory that uploads may take, in memory and on the disk: /tmp may be memory too."""

KEY_SHARE = 0.75
"""Share of the slots, and of the room for uploads, that one of several keys has at most."""
MINUTE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a key; 0 is none."""

    requests_per_minute: int = 0
    """Files, live sessions that are opened, client secrets, and transcripts to write."""
    audio_s_per_minute: float = 0.0
    """Seconds of audio, of files and of live sessions."""
    streams: int = 0


def check_length(file: IO[bytes], max_audio_s: float, param: str = "file") -> None:
    """Check the length in a file's header; the server checks the audio that it decodes."""
    seconds = length_of(file) if max_audio_s else None
    if seconds is not None and seconds > max_audio_s:
        takes = f"this server takes at most {max_audio_s:g} s"
        message = f"the {param} has {seconds:.0f} s of audio; {takes}"
        raise ApiError(413, message, param=param, code="audio_too_long")


class Bucket:
    """A token bucket: it holds a minute's share, and is refilled steadily.

    It may be overdrawn, since the length of a file is known only after its recognition.
    """

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin full; a share of 0 is no limit. The clock counts seconds."""
        self._per_minute = self._level = per_minute
        self._clock, self._at = clock, clock()

    def wait_s(self, amount: float) -> float:
        """Return the seconds until `amount` is there; 0 if it is."""
        if not self._per_minute:
            return 0.0
        self._refill()
        missing = min(amount, self._per_minute) - self._level
        return max(0.0, missing * MINUTE_S / self._per_minute)

    def take(self, amount: float) -> None:
        """Take `amount`, whether it is there or not."""
        self._refill()
        self._level -= amount

    def _refill(self) -> None:
        now = self._clock()
        gained = (now - self._at) * self._per_minute / MINUTE_S
        self._level = min(self._per_minute, self._level + gained)
        self._at = now


class Room:
    """Bytes that all uploads may take together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._taken = 0
        self._taken_by: Counter[str] = Counter()

    @contextmanager
    def taken(
        self, size: int, key: str = "", share: float = 1.0
    ) -> Iterator[Callable[[int], None]]:
        """Take bytes for the block; yield a function that gives back all but its argument.

        Raise an ApiError if there is no room for them, or the key would have more than its share.
        """
        for whose, taken, most in (
            ("uploads", self._taken, self.most),
            ("uploads of this key", self._taken_by[key], share * self.most),
        ):
            if taken + size > most:
                raise overloaded(
                    f"{whose} have {taken / 1e6:.0f} MB and this one up to {size / 1e6:.0f} MB; "
                    f"this gateway holds {most / 1e6:.0f} MB of them; try again later"
                )
        mine = 0

        def keep(rest: int) -> None:
            nonlocal mine
            self._taken += rest - mine
            self._taken_by[key] += rest - mine
            mine = rest

        keep(size)
        try:
            yield keep
        finally:
            keep(0)
            self._taken_by += Counter()  # without keys that have nothing


def memory_of_container(cgroup: Path) -> int:
    """Return the bytes of memory of this machine, or of the container with a control group."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # without a limit it is max
            sizes.append(int((cgroup / name).read_text()))
    return min(sizes)
