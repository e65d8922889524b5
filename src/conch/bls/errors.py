"""Errors of a component that died, hangs or is being replaced."""

from conch.wire.errors import ComponentError


class ComponentAwayError(ComponentError):
    """A component's process has died, or the component is being replaced.

    The call may be repeated. The component's streams are lost.
    """


class ComponentHungError(ComponentAwayError):
    """A component did not answer this call and was ended: the call may be the cause."""


class StreamLostError(ComponentAwayError):
    """A component does not know a stream that was open."""
