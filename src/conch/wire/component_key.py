"""The key with which `speech` calls the components; no other client has it."""

import os

ENVIRONMENT = "CONCH_COMPONENT_KEY"
"""Environment variable of `tritonserver`: its models inherit the key. Without it, components answer
any client."""
PARAMETER = "component_key"
"""Request parameter of each call of a component."""


def own() -> dict[str, str]:
    """Return the request parameter that components ask for; none where they are open."""
    key = os.environ.get(ENVIRONMENT)
    return {PARAMETER: key} if key else {}
