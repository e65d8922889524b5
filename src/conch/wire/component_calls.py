"""What a call of a component carries beside its options.

The key is that of `speech`; no other client has it. A number lets a call leave before its end a
component whose rows are in flight together: Triton cancels no call that a model has made, so
another call names it. That helps where it can: a call that has gone to another instance, or comes
later, does not leave.
"""

import os

KEY_VARIABLE = "CONCH_COMPONENT_KEY"
"""Environment variable of `tritonserver`: its models inherit the key. Without it, components answer
any client."""
KEY = "component_key"
"""Request parameter of each call of a component."""
NUMBER = "call_number"
"""Request parameter: the number of a call, an integer that no other call of the server has."""
LEAVES = "call_leaves"
"""Request parameter: the number of the call that nobody waits for any more."""


def own_key() -> dict[str, str]:
    """Return the request parameter that components ask for; none where they are open."""
    key = os.environ.get(KEY_VARIABLE)
    return {KEY: key} if key else {}
