"""The key of this server, with which its models call its components."""

import os

from conch.wire import component_key


def own_key() -> dict[str, str]:
    """Return the request parameter that components ask for; none where they are open."""
    key = os.environ.get(component_key.ENVIRONMENT)
    return {component_key.PARAMETER: key} if key else {}
