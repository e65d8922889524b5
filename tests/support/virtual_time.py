"""An event loop whose clock jumps to the next timer: minutes of waiting take no time."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Jumping(selectors.DefaultSelector):
    """A selector that does not wait, but adds up what it was asked to wait."""

    slept_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("nothing is due, and nothing else can happen in virtual time")
        self.slept_s += max(timeout, 0.0)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose time goes on only where all tasks wait.

    Work for other threads is done at once: time would jump while a thread takes long.
    """

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.slept_s

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


def run(scenario: Coroutine[Any, Any, Result]) -> Result:
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(scenario)
    finally:
        loop.close()
