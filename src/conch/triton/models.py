"""The `TritonPythonModel` of a model.py: of a component, or of a point that answers by itself."""

import gc
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from conch.component import ComponentModel
from conch.component.parameters import read_parameters
from conch.triton.in_flight import Starting, finish, start
from conch.triton.memory import trim
from conch.triton.requests import respond

Config = TypeVar("Config")
Made = TypeVar("Made")
Args = Mapping[str, str]
"""Triton's arguments of `initialize`."""


class StreamComponent(ComponentModel, Protocol):
    """A component that keeps streams; its length is their number."""

    def __len__(self) -> int: ...
    def close(self) -> None: ...


class Point(Protocol):
    """Takes requests, and answers them later."""

    def start(self, request: Any) -> None: ...
    def close(self) -> None: ...


def component_model(
    make: Callable[[Config], ComponentModel], config: type[Config], *, is_frozen: bool = False
) -> type[Any]:
    """Return the model of a component, which `make` makes of the parameters of config.pbtxt.

    With `is_frozen` no full collection walks what was loaded: it would hold up every stream for
    0.1 s.
    """

    class TritonPythonModel:
        def initialize(self, args: Args) -> None:
            self.component = _loaded(make, config, args, is_frozen=is_frozen)

        def execute(self, requests: list[Any]) -> list[Any]:
            return respond(requests, self.component)

    return TritonPythonModel


def stream_model(
    make: Callable[[Config], StreamComponent], config: type[Config], *, is_frozen: bool = False
) -> type[Any]:
    """Return the model of a component with streams, whose number it publishes."""
    from conch.triton.metrics import publish_streams  # no other component has metrics

    class TritonPythonModel:
        def initialize(self, args: Args) -> None:
            self.component = _loaded(make, config, args, is_frozen=is_frozen)
            self.publisher = publish_streams(args, self.component)

        def execute(self, requests: list[Any]) -> list[Any]:
            return respond(requests, self.component)

        def finalize(self) -> None:
            self.publisher.close()
            self.component.close()

    return TritonPythonModel


def in_flight_model(make: Callable[[Config], Starting], config: type[Config]) -> type[Any]:
    """Return the model of a component whose rows are in flight together."""

    class TritonPythonModel:
        def initialize(self, args: Args) -> None:
            self.component = _loaded(make, config, args)

        def execute(self, requests: list[Any]) -> None:
            start(requests, self.component)

        def finalize(self) -> None:
            finish(self.component)

    return TritonPythonModel


def bls_model(make: Callable[[Config, Args], Point], config: type[Config]) -> type[Any]:
    """Return the model of a point, which `make` makes of the parameters and Triton's arguments."""

    class TritonPythonModel:
        def initialize(self, args: Args) -> None:
            self.point = make(read_parameters(config, args), args)

        def execute(self, requests: list[Any]) -> None:
            for request in requests:
                self.point.start(request)

        def finalize(self) -> None:
            self.point.close()

    return TritonPythonModel


def _loaded(
    make: Callable[[Config], Made], config: type[Config], args: Args, *, is_frozen: bool = False
) -> Made:
    """Return a component after giving back the memory that only its loading took."""
    component = make(read_parameters(config, args))
    trim()
    if is_frozen:
        gc.freeze()
    return component
