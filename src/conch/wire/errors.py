"""Every error that Conch raises on purpose.

Only a `TranscriptionError` is about a single request:

    ConchError
    ├── ConfigError              a model's parameters or files are wrong (at load)
    ├── ServerError              tritonserver cannot be found, started or stopped
    ├── BenchError               a benchmark cannot be run as asked
    └── TranscriptionError       one request cannot be answered
        ├── InvalidRequestError      the request itself is wrong
        │   ├── OptionError              an option: unknown, mistyped, out of range
        │   ├── AudioError               the audio: missing, empty, not finite, not decodable
        │   └── SessionError             a chunk of a stream that is not open
        ├── DeadlineError            the request's own time budget is spent
        ├── RequestCancelledError    the client gave up
        ├── OverloadedError          a limit of this server is reached
        └── ComponentError           a component model answered with an error
            └── MissingModelError        a component model is not loaded
"""


class ConchError(Exception):
    """Root of every error below."""


class ConfigError(ConchError):
    """A model cannot be loaded as configured; the message names the key or the file."""


class ServerError(ConchError):
    """A `tritonserver` cannot be found, started, reached or stopped."""


class BenchError(ConchError):
    """A benchmark cannot be run as asked; the message names the file, column or package."""


class TranscriptionError(ConchError):
    """One request failed; every other request is unharmed."""


class InvalidRequestError(TranscriptionError, ValueError):
    """The request cannot be served as sent."""


class OptionError(InvalidRequestError):
    """A request option is unknown, mistyped or out of range."""


class AudioError(InvalidRequestError):
    """The audio is missing, empty, not finite or cannot be decoded."""


class SessionError(InvalidRequestError):
    """A chunk belongs to no open stream: the stream never started, has ended or has expired."""


class DeadlineError(TranscriptionError, TimeoutError):
    """The time budget of the request, `timeout_s` or `deadline_ms`, is over."""


class RequestCancelledError(TranscriptionError):
    """The client cancelled the request."""


class OverloadedError(TranscriptionError):
    """A limit of the server is reached; try again later, or on another server."""


class ComponentError(TranscriptionError):
    """A component model answered with an error."""


class MissingModelError(ComponentError):
    """A component model that the request needs is not loaded on this server."""

    def __init__(self, message: str, model: str = "") -> None:
        super().__init__(message)
        self.model = model
        """The component's name."""
