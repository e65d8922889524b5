"""Speech recognition on NVIDIA Triton through one BLS model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conch.client import AsyncClient, Client, Speech
    from conch.wire.errors import (
        AudioError,
        ComponentError,
        ConchError,
        DeadlineError,
        InternalError,
        InvalidRequestError,
        MissingModelError,
        OptionError,
        OverloadedError,
        PoisonError,
        ProcessLostError,
        RequestCancelledError,
        ServerError,
        SessionError,
        TextError,
        TranscriptionError,
    )
    from conch.wire.result import Transcript

__all__ = [
    "AsyncClient",
    "AudioError",
    "Client",
    "ComponentError",
    "ConchError",
    "DeadlineError",
    "InternalError",
    "InvalidRequestError",
    "MissingModelError",
    "OptionError",
    "OverloadedError",
    "PoisonError",
    "ProcessLostError",
    "RequestCancelledError",
    "ServerError",
    "SessionError",
    "Speech",
    "TextError",
    "Transcript",
    "TranscriptionError",
]
__version__ = "0.1.0"

_HOMES = {
    "AsyncClient": "conch.client",
    "Client": "conch.client",
    "Speech": "conch.client",
    "Transcript": "conch.wire.result",
}


if not TYPE_CHECKING:  # or any name at all would have a type

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used: `import conch` itself takes no time."""
        if name not in __all__:
            raise AttributeError(f"module 'conch' has no attribute {name!r}")
        value = getattr(import_module(_HOMES.get(name, "conch.wire.errors")), name)
        globals()[name] = value
        return value
