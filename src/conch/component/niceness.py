"""The niceness of a component's process."""

import os

from conch.wire.errors import ConfigError


def be_nice(nice: int) -> None:
    """Make this process at least so nice.

    Linux keeps the niceness of each thread; those that start later take it over. A process that was
    started nicer stays so: only root could change that.
    """
    if not 0 <= nice <= 19:
        raise ConfigError(f"nice takes 0 to 19; is: {nice}")
    os.setpriority(os.PRIO_PROCESS, 0, max(nice, os.getpriority(os.PRIO_PROCESS, 0)))
