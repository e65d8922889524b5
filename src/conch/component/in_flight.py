"""Answer rows side by side: one call makes the next step of all of them (in-flight batching).

A row is a generator: it yields the step that it needs next, and gets what the step says. At its end
it returns a function that makes its result. So a row joins those that run at their next step,
leaves with its last one, and waits for no longer row. The idea is that of Orca (Yu et al., 2022,
https://www.usenix.org/conference/osdi22/presentation/yu).
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from conch.wire.errors import ComponentError

logger = logging.getLogger(__name__)

Step = TypeVar("Step")
Said = TypeVar("Said")
Result = TypeVar("Result")
Search = Generator[Step, Said, Callable[[], Result]]
Reason = Callable[[], Exception | None]
"""Returns why nobody waits for a row any more, or None."""


class InFlight(Generic[Step, Said]):
    """Runs searches on a thread of its own, at most `most` at once; the others wait in order."""

    def __init__(self, advance: Callable[[Sequence[Step]], Sequence[Said]], most: int) -> None:
        """`advance` makes one step of each of several searches."""
        self._advance, self._most = advance, most
        self._new: list[_RowInFlight[Step, Said]] = []
        self._changed = threading.Condition()
        self._is_closing = False
        self._ends = ThreadPoolExecutor(1, thread_name_prefix="row-end")
        self._thread = threading.Thread(target=self._run, name="in-flight", daemon=True)
        self._thread.start()

    def start(self, search: "Search[Step, Said, Result]", reason: Reason) -> "Future[Result]":
        """Start a search; call `reason` before each step, and callbacks on another thread."""
        result: Future[Result] = Future()
        row = _RowInFlight(search, reason, result)
        with self._changed:
            if self._is_closing:
                raise ComponentError("the component is closing")
            self._new.append(row)
            self._changed.notify()
        return result

    def close(self) -> None:
        """Finish the searches that have started, and stop the threads."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()
        self._ends.shutdown()

    def _run(self) -> None:
        rows: list[_RowInFlight[Step, Said]] = []
        waiting: deque[_RowInFlight[Step, Said]] = deque()
        while True:
            with self._changed:
                if not rows and not waiting:
                    self._changed.wait_for(lambda: self._new or self._is_closing)
                waiting += self._new
                self._new.clear()
            # Those that wait too: their memory is not needed any more.
            rows = [*filter(self._is_wanted, rows)]
            waiting = deque(filter(self._is_wanted, waiting))
            while waiting and len(rows) < self._most:
                rows += self._begun(waiting.popleft())
            self._make_steps(rows)
            rows = [row for row in rows if row.step is not None]
            if self._is_closing and not (rows or waiting or self._new):
                return

    # These two are no part of `_run`, whose variables would keep the last row while none is there.
    def _begun(self, row: "_RowInFlight[Step, Said]") -> "list[_RowInFlight[Step, Said]]":
        self._go_on(row, None)
        return [] if row.step is None else [row]

    def _make_steps(self, rows: "Sequence[_RowInFlight[Step, Said]]") -> None:
        for row, said in zip(rows, self._said(rows), strict=True):
            self._go_on(row, said)

    def _is_wanted(self, row: "_RowInFlight[Step, Said]") -> bool:
        """Return whether somebody waits for a row; end it if not."""
        try:
            error = row.reason()
            if error is not None:
                row.search.close()
        except Exception as failure:
            error = failure
        if error is not None:
            self._fail(row, error)
        return error is None

    def _said(self, rows: "Sequence[_RowInFlight[Step, Said]]") -> Sequence[Said | Exception]:
        """Make the steps of rows; where they fail together, each fails or succeeds alone."""
        if not rows:
            return ()
        steps = [row.step for row in rows if row.step is not None]
        try:
            said = self._advance(steps)
            if len(said) != len(rows):
                raise ValueError(f"{len(rows)} rows have {len(said)} results of their step")
            return said
        except Exception as error:
            if len(rows) == 1:
                return [error]
            logger.warning("a step of %d rows has failed: %s", len(rows), error)
            return [self._said([row])[0] for row in rows]

    def _go_on(self, row: "_RowInFlight[Step, Said]", said: Said | Exception | None) -> None:
        try:
            if isinstance(said, Exception):
                row.step = row.search.throw(said)
            else:
                row.step = next(row.search) if said is None else row.search.send(said)
        except StopIteration as end:
            row.step = None
            self._ends.submit(_settle, row.result, end.value)
        except Exception as error:
            self._fail(row, error)

    def _fail(self, row: "_RowInFlight[Step, Said]", error: Exception) -> None:
        row.step = None
        self._ends.submit(row.result.set_exception, error)


@dataclass(slots=True, eq=False)
class _RowInFlight(Generic[Step, Said]):
    search: Generator[Step, Said, Callable[[], object]]
    reason: Reason
    result: "Future[Any]"
    step: Step | None = None
    """Next step; None before the first and after the last."""


def _settle(result: "Future[Any]", make: Callable[[], object]) -> None:
    try:
        made = make()
    except Exception as error:
        result.set_exception(error)
    else:
        result.set_result(made)
