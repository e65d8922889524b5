"""The niceness of a component's process."""

import os

from conch.wire.errors import ConfigError


def be_nice(nice: int) -> None:
    """Raise this process to niceness `nice`, if lower; only threads that start later inherit it."""
    if not 0 <= nice <= 19:
        raise ConfigError(f"nice takes 0 to 19; is: {nice}")
    os.setpriority(os.PRIO_PROCESS, 0, max(nice, os.getpriority(os.PRIO_PROCESS, 0)))
