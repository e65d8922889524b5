"""How a call leaves a component whose rows are in flight together, before its end.

Triton cancels no call that a model has made. So each call has a number, and another call names it.
That helps where it can: a call that has gone to another instance, or comes later, does not leave.
"""

NUMBER = "call_number"
"""Request parameter: the number of a call, an integer that no other call of the server has."""
LEAVES = "call_leaves"
"""Request parameter: the number of the call that nobody waits for any more."""
