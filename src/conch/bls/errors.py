"""Errors of a component that died, hangs or is being replaced."""

from conch.wire.errors import ComponentError


class ComponentAwayError(ComponentError):
    """A component's process has died, or the component is being replaced.

    The call may be repeated. What the component kept of streams is lost.
    """


class ComponentHungError(ComponentAwayError):
    """A component has not answered this very call, and was ended: the call may be the reason."""


class StreamLostError(ComponentAwayError):
    """A component does not know a stream that was open."""
