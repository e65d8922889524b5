"""Goals for the cost of orchestration, compared with a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.live.figures import ViewedRun
from lab.orchestration import in_process
from lab.orchestration.added import AddedTime
from lab.orchestration.figures import LoadRatio, Ratio, SystemFigures
from lab.orchestration.systems import BLOCKING, CONCH, CONCH_NO_VAD, ENSEMBLE

LEAST_OF_IN_PROCESS = 0.95
MOST_ADDED_MS = 8.0
LEAST_OF_BLOCKING = 2.0
MOST_P99_OF_BLOCKING = 1.0
MOST_MEMORY_OF_BLOCKING = 0.5
LEAST_OF_ENSEMBLE = 0.9
MOST_OF_LIVE_CPU = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A bound, and the figure that must keep it."""

    goal: str
    """Subject of the goal."""
    wanted: str
    """The bound in words."""
    measured: float | None
    """The figure; None if the report lacks it."""
    met: bool | None
    """Whether the figure keeps the bound."""


def offline(
    systems: Mapping[str, SystemFigures],
    ratios: Mapping[str, Ratio],
    added: Sequence[AddedTime] | None,
) -> list[Goal]:
    """Return the goals of a report of `lab.orchestration`."""
    local = _busy(ratios.get(f"{CONCH} / {in_process.NAME}"))
    best = best_blocking(systems)
    blocking = ratios.get(f"{CONCH} / {best}") if best else None
    loads = _busy(blocking)
    ensemble = _loads(ratios.get(f"{CONCH_NO_VAD} / {ENSEMBLE}"))
    name = best or BLOCKING
    return [
        _at_least(
            f"RTFx of `{CONCH}` / {in_process.NAME}, 4 clients or more, the worst",
            LEAST_OF_IN_PROCESS,
            min((item.rtfx for item in local if item.rtfx), default=None),
        ),
        _at_most(
            "ms added to direct calls of the components, 5 s, p50, the worst path",
            MOST_ADDED_MS,
            max((item.added_to_direct_ms for item in added or ()), default=None),
        ),
        _at_least(
            f"RTFx of `{CONCH}` / {name}, 4 clients or more, the worst",
            LEAST_OF_BLOCKING,
            min((item.rtfx for item in loads if item.rtfx), default=None),
        ),
        _at_most(
            f"p99 of `{CONCH}` / {name}, 4 clients or more, the worst",
            MOST_P99_OF_BLOCKING,
            max((item.p99 for item in loads if item.p99), default=None),
        ),
        _at_most(
            f"memory of all processes, `{CONCH}` / {name}",
            MOST_MEMORY_OF_BLOCKING,
            blocking.memory if blocking else None,
        ),
        _at_most(
            f"memory of the orchestrator's processes, `{CONCH}` / {name}",
            MOST_MEMORY_OF_BLOCKING,
            blocking.orchestrator_memory if blocking else None,
        ),
        _at_least(
            f"RTFx of `{CONCH_NO_VAD}` / {ENSEMBLE}, the worst",
            LEAST_OF_ENSEMBLE,
            min((item.rtfx for item in ensemble if item.rtfx), default=None),
        ),
    ]


def live(best: ViewedRun) -> list[Goal]:
    """Return the goal of a live report, for its largest run that kept up."""
    share = best.orchestration_share if best.keeps_up else None
    goal = f"orchestration's share of CPU, {best.streams} streams"
    return [_at_most(goal, MOST_OF_LIVE_CPU, share)]


def best_blocking(systems: Mapping[str, SystemFigures]) -> str | None:
    """Return the blocking system whose best RTFx in a closed loop is the highest."""
    best: dict[str, float] = {}
    for name, system in systems.items():
        found = [item.rtfx for item in system.runs if item.concurrency and item.rtfx]
        if name.startswith(BLOCKING) and found:
            best[name] = max(found)
    return max(best, key=lambda name: best[name]) if best else None


def _loads(ratio: Ratio | None) -> list[LoadRatio]:
    loads = ratio.loads if ratio else []
    return [item for item in loads if item.concurrency and item.rtfx]


def _busy(ratio: Ratio | None) -> list[LoadRatio]:
    return [item for item in _loads(ratio) if item.concurrency and item.concurrency >= 4]


def _at_least(goal: str, bound: float, measured: float | None) -> Goal:
    met = None if measured is None else measured >= bound
    return Goal(goal=goal, wanted=f"at least {bound:g}", measured=measured, met=met)


def _at_most(goal: str, bound: float, measured: float | None) -> Goal:
    met = None if measured is None else measured <= bound
    return Goal(goal=goal, wanted=f"at most {bound:g}", measured=measured, met=met)
