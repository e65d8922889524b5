"""Find calls that a component will never answer, and end the component's processes.

A component answers first come, first served. So the time of a call starts when all calls before it
are answered. Other streams may overtake a call of a stream: its time starts again with each answer
of the component. Where rows are in flight together, each has its share of the time. The limit of a
call follows from the component's measured speed. Time in which the component waits for a core does
not count: a slow machine is not a hung component.
"""

import logging
import math
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from conch.bls.call import START_PATIENCE_S, Call, ComponentAwayError, ComponentHungError
from conch.bls.config import OwnComponents, traits_of
from conch.bls.metrics import HANGS, Metrics
from conch.families.family import Traits
from conch.processes import model_processes, stat_fields

logger = logging.getLogger(__name__)

LIST_S = 5.0
"""Seconds between two lists of the processes."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PERIOD_S = 0.5
"""Seconds between two checks of the calls in flight."""
MAX_DOUBLINGS = 6
"""How often the limit doubles while a component hangs again and again without an answer."""
UNKNOWN_S = 60.0
"""Limit before a component's first answer, in seconds: the first call may compile kernels."""
MEMORY = 64
"""Largest number of calls in the mean of a component's speed."""
STARVED_FROM_S = 1.0
"""Seconds without an answer after which it matters whether the component waits for a core."""


@dataclass(slots=True, eq=False)
class _CallInFlight:
    size: int
    """Measure of its work."""
    in_stream: bool
    """Whether it belongs to a stream, so that other streams may overtake it."""
    patience_s: float
    """Seconds that it may wait for a place at the component, in addition to the limit."""
    began: float
    give_up: Callable[[ComponentAwayError], None]
    """Ends the wait for the answer with this error."""
    is_oldest: bool = False
    """Whether this was the oldest call of its component at the last check."""
    stalled_s: float = 0.0
    """Seconds since then in which the component could have answered it."""


class Speed:
    """How long a component takes for a call: a decaying mean, by call and by size."""

    def __init__(self) -> None:
        self._calls = self._seconds = self._size = 0.0

    def add(self, seconds: float, size: int) -> None:
        if self._calls >= MEMORY:
            self._calls, self._seconds, self._size = (
                value / 2 for value in (self._calls, self._seconds, self._size)
            )
        self._calls += 1
        self._seconds += seconds
        self._size += size

    def expected_s(self, size: int) -> float:
        """Return the seconds that a call of this size takes; NaN if nothing is known."""
        if not self._calls:
            return math.nan
        return self._seconds * max(1 / self._calls, size / max(1.0, self._size))


def boot_time_s() -> float:
    """Return the seconds since this machine has started: the clock of /proc."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ThreadTimes(NamedTuple):
    """State and times of a thread, as the kernel counts them."""

    is_runnable: bool
    """Whether it computes, or waits for a core or a disk, right now."""
    cpu_s: float
    delay_s: float
    """Seconds of waiting for a core, as far as the waits have ended."""


def starved_s(
    before: Mapping[int, ThreadTimes], after: Mapping[int, ThreadTimes], elapsed_s: float
) -> float:
    """Return for how long the thread that waited longest has waited for a core.

    A computation on several threads ends with the last one. The times of each thread are those
    before and after `elapsed_s` seconds.
    """
    waits = [0.0]
    for thread in before.keys() & after.keys():
        old, new = before[thread], after[thread]
        waits.append(new.delay_s - old.delay_s)
        if old.is_runnable and new.is_runnable:  # perhaps in a wait that has not ended
            waits.append(elapsed_s - (new.cpu_s - old.cpu_s))
    return min(elapsed_s, max(waits))


class ModelProcesses:
    """The processes of the models of a server, in /proc; times are those of `boot_time_s`."""

    def __init__(self, server: int) -> None:
        self._server = server
        self._listed: tuple[float, dict[int, str]] = (-LIST_S, {})
        self._looks: dict[str, tuple[float, dict[int, ThreadTimes]]] = {}

    def started(self, model: str) -> Sequence[float]:
        """Return when each process of a model began; empty where none can be seen."""
        self._listed = (-LIST_S, {})
        return [began for process in self._of(model) if (began := _started(process)) is not None]

    def starved_s(self, model: str) -> float:
        """Return for how many seconds since the last look a model has waited for a core."""
        now = boot_time_s()
        threads = {
            thread: times for process in self._of(model) for thread, times in _threads(process)
        }
        looked_at, before = self._looks.get(model, (now, {}))
        self._looks[model] = now, threads
        return starved_s(before, threads, now - looked_at)

    def kill(self, model: str, before: float) -> int:
        """End the processes of a model that began before a time; return how many."""
        return sum(self._kill(process, before) for process in self._of(model))

    def _of(self, model: str) -> list[int]:
        now = boot_time_s()
        if now - self._listed[0] >= LIST_S:
            self._listed = now, model_processes(self._server)
        return [process for process, name in self._listed[1].items() if name == model]

    def _kill(self, process: int, before: float) -> bool:
        with suppress(OSError):
            # From here on the number is that of no other process.
            handle = os.pidfd_open(process)
            try:
                state, parent, *_ = stat_fields(str(process))
                began = _started(process)
                if int(parent) == self._server and began is not None and began < before:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    return state not in ("Z", "X")
            finally:
                os.close(handle)
        return False


def _started(process: int) -> float | None:
    try:
        return int(stat_fields(str(process))[19]) / TICKS_PER_S
    except OSError:
        return None


def _threads(process: int) -> list[tuple[int, ThreadTimes]]:
    """Return the times of a process's threads, by thread; those that end meanwhile are left out."""
    times = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with suppress(OSError):
                times.append((int(thread), _times(f"{process}/task/{thread}")))
    return times


def _times(thread: str) -> ThreadTimes:
    fields = stat_fields(thread)
    try:
        computed, waited, _ = Path(f"/proc/{thread}/schedstat").read_text().split()
    except FileNotFoundError:  # this kernel counts whole ticks of computing only
        return ThreadTimes(fields[0] in ("R", "D"), sum(map(int, fields[11:13])) / TICKS_PER_S, 0.0)
    return ThreadTimes(fields[0] in ("R", "D"), int(computed) / 1e9, int(waited) / 1e9)


class HangWatch:
    """Watches the calls in flight of all requests; any thread may make calls."""

    def __init__(
        self,
        processes: ModelProcesses,
        components: OwnComponents,
        least_s: float,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` returns seconds as `ModelProcesses.started` does."""
        self._processes, self.components = processes, components
        self._least_s, self._metrics = least_s, metrics
        self._clock, self._looked_at = clock, clock()
        self._calls: dict[str, dict[_CallInFlight, None]] = {}
        """Calls by component, in the order in which they were made."""
        self._speeds: dict[str, Speed] = {}
        self._has_answered: set[str] = set()
        """Components that have answered a call since the last check, errors included."""
        self._hangs: Counter[str] = Counter()
        """Hangs of each component since its last answer."""
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hang-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def traits(self, model: str) -> Traits:
        return traits_of(model, self.components)

    @contextmanager
    def calling(
        self, call: Call, size: int, give_up: Callable[[ComponentAwayError], None]
    ) -> Iterator[None]:
        """Watch the call that is made in the block; it hangs only at one of the components.

        `give_up` ends the wait for its answer; it is called once at most, in a thread.
        """
        model = call.model
        in_stream = call.sequence is not None
        patience_s = START_PATIENCE_S if in_stream and not call.continues_stream else 0.0
        in_flight = _CallInFlight(size, in_stream, patience_s, self._clock(), give_up)
        with self._lock:
            self._calls.setdefault(model, {})[in_flight] = None
        try:
            yield
            with self._lock:
                self._hangs.pop(model, None)
                speed = self._speeds.setdefault(model, Speed())
                speed.add(self._clock() - in_flight.began, size)
        finally:
            with self._lock:
                self._calls.get(model, {}).pop(in_flight, None)
                self._has_answered.add(model)

    def limit_s(self, model: str, size: int) -> float:
        """Return the longest time for a component to answer a call, in seconds.

        It doubles with each hang without an answer in between: a component that is slower than
        expected must not be ended again and again forever.
        """
        with self._lock:
            speed, hangs = self._speeds.get(model), self._hangs[model]
        expected_s = math.nan if speed is None else speed.expected_s(size)
        factor = self.traits(model).hang_factor
        most_s = UNKNOWN_S if math.isnan(expected_s) else factor * expected_s
        return float(max(self._least_s, most_s) * 2 ** min(hangs, MAX_DOUBLINGS))

    def give_up(self, model: str, before: float = math.inf) -> None:
        """Fail the calls that a component got before a time: it was replaced since."""
        with self._lock:
            in_flight = self._calls.get(model, {})
            calls = [item for item in in_flight if item.began < before]
            for item in calls:
                del in_flight[item]
        for item in calls:
            item.give_up(ComponentAwayError(f"{model} was replaced while it was called"))

    def look(self) -> None:
        """Check the oldest call of each component once, and end the components that hang."""
        now = self._clock()
        # If this thread is late, the others are too.
        elapsed_s = min(now - self._looked_at, 2 * PERIOD_S)
        self._looked_at = now
        with self._lock:
            oldest = [
                (model, next(iter(calls)), len(calls))
                for model, calls in self._calls.items()
                if calls and model in self.components
            ]
            have_answered, self._has_answered = self._has_answered, set()
        for model, call, in_flight in oldest:
            if not call.is_oldest or (call.in_stream and model in have_answered):
                call.is_oldest, call.stalled_s = True, 0.0
                continue
            is_late = call.stalled_s >= STARVED_FROM_S
            starved_s = self._processes.starved_s(model) if is_late else 0.0
            sharing = max(1, min(self.traits(model).in_flight, in_flight))
            call.stalled_s += max(0.0, elapsed_s - starved_s) / sharing
            if call.stalled_s >= self.limit_s(model, call.size) + call.patience_s:
                self._hung(model, call)

    def _run(self) -> None:
        while not self._closing.wait(PERIOD_S):
            try:
                self.look()
            except Exception:
                logger.exception("calls in flight could not be checked")

    def _hung(self, model: str, call: _CallInFlight) -> None:
        oldest_process = min(self._processes.started(model), default=-math.inf)
        if oldest_process > call.began:
            self.give_up(model, oldest_process)
            return
        with self._lock:
            calls = list(self._calls.pop(model, {}))
            self._hangs[model] += 1
        killed = self._processes.kill(model, before=call.began)
        reason = f"{model} has not answered a call for {call.stalled_s:.1f} s"
        logger.error(
            "component %s hangs: %s; %s",
            model,
            reason,
            f"its processes are ended ({killed})" if killed else "its processes cannot be ended",
        )
        self._metrics.add(HANGS, component=model)
        call.give_up(ComponentHungError(reason))
        for other in calls:
            if other is not call:
                other.give_up(ComponentAwayError(f"{model} was ended, as another call hung"))
