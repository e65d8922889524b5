"""Errors of a component that died, hangs or is being replaced."""

from conch.wire.errors import ComponentError

UNLOADED = "the model is being unloaded; try again"
"""Message to the requests of a model that is being unloaded."""


class ComponentAwayError(ComponentError):
    """A component has died or is being replaced: a call may be repeated, streams are lost."""


class ComponentHungError(ComponentAwayError):
    """A component did not answer this call and was ended: the call may be the cause."""


class StreamLostError(ComponentAwayError):
    """A component does not know a stream that was open."""
