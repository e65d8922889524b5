"""A recogniser on plain components."""

import time
from collections.abc import Callable
from typing import Any

from conch.bls.call import Components
from conch.bls.calls import Calls
from conch.bls.deadline import Deadline
from conch.bls.runtime import Runtime
from conch.recognition import RecognitionConfig, Recognizer, own_components


def runtime_on(components: Components, **limits: Any) -> Runtime:
    """Return what the services of a process share, on these components."""
    return Runtime(RecognitionConfig(**limits), own_components(), components)


def recognizer_on(
    components: Components,
    *,
    cores: int | None = None,
    clock: Callable[[], float] = time.monotonic,
    **limits: Any,
) -> Recognizer:
    """Return a recogniser whose calls go to these components."""
    runtime = runtime_on(components, **limits)
    return Recognizer(RecognitionConfig(**limits), runtime, cores, clock)


def calls_on(components: Components, deadline_ms: int = 0) -> Calls:
    """Return the calls of a live chunk to these components."""
    return runtime_on(components).live_calls(components, "offline", Deadline(deadline_ms))
