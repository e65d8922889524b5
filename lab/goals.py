"""What orchestration may cost, held against a report.

A goal is `{goal, wanted, measured, met}`: what it is about, the bound in words, the figure, and
whether it keeps the bound; both are null where the report lacks what the goal needs.
"""

from collections.abc import Mapping
from typing import Any

from conch.bench import in_process
from conch.bench.systems import BLOCKING, CONCH, CONCH_NO_VAD, ENSEMBLE

LEAST_OF_IN_PROCESS = 0.95
MOST_ADDED_MS = 8.0
LEAST_OF_BLOCKING = 2.0
MOST_P99_OF_BLOCKING = 1.0
MOST_MEMORY_OF_BLOCKING = 0.5
LEAST_OF_ENSEMBLE = 0.9
MOST_OF_STREAMING_CPU = 0.25


def offline(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the goals of a report of `conch.bench.orchestration`."""
    ratios: Mapping[str, Mapping[str, Any]] = report["ratios"]
    local = _busy(ratios.get(f"{CONCH} / {in_process.NAME}"))
    best = best_blocking(report)
    blocking = ratios.get(f"{CONCH} / {best}") if best else None
    loads = _busy(blocking)
    ensemble = _loads(ratios.get(f"{CONCH_NO_VAD} / {ENSEMBLE}"))
    added = [item["added_to_direct_ms"] for item in report["added"] or ()]
    name = best or BLOCKING
    return [
        _at_least(
            f"RTFx of `{CONCH}` / {in_process.NAME}, 4 clients or more, the worst",
            LEAST_OF_IN_PROCESS,
            min((item["rtfx"] for item in local), default=None),
        ),
        _at_most(
            "ms added to direct calls of the components, 5 s, p50, the worst road",
            MOST_ADDED_MS,
            max(added, default=None),
        ),
        _at_least(
            f"RTFx of `{CONCH}` / {name}, 4 clients or more, the worst",
            LEAST_OF_BLOCKING,
            min((item["rtfx"] for item in loads), default=None),
        ),
        _at_most(
            f"p99 of `{CONCH}` / {name}, 4 clients or more, the worst",
            MOST_P99_OF_BLOCKING,
            max((item["p99"] for item in loads if item["p99"]), default=None),
        ),
        _at_most(
            f"memory of all processes, `{CONCH}` / {name}",
            MOST_MEMORY_OF_BLOCKING,
            blocking["memory"] if blocking else None,
        ),
        _at_most(
            f"memory of the orchestrator's processes, `{CONCH}` / {name}",
            MOST_MEMORY_OF_BLOCKING,
            blocking["orchestrator_memory"] if blocking else None,
        ),
        _at_least(
            f"RTFx of `{CONCH_NO_VAD}` / {ENSEMBLE}, the worst",
            LEAST_OF_ENSEMBLE,
            min((item["rtfx"] for item in ensemble), default=None),
        ),
    ]


def streaming(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the goal of a report of `conch.bench.streaming`: of its largest run that kept up."""
    share = report["orchestration_share"] if report["keeps_up"] else None
    goal = f"orchestration's share of CPU, {report['streams']} streams"
    return [_at_most(goal, MOST_OF_STREAMING_CPU, share)]


def best_blocking(report: Mapping[str, Any]) -> str | None:
    """Return the blocking system whose best RTFx in a closed loop is the highest."""
    best: dict[str, float] = {}
    for name, system in report["systems"].items():
        found = [item["rtfx"] for item in system["runs"] if item["concurrency"] and item["rtfx"]]
        if name.startswith(BLOCKING) and found:
            best[name] = max(found)
    return max(best, key=lambda name: best[name]) if best else None


def _loads(ratio: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    loads = ratio["loads"] if ratio else []
    return [item for item in loads if item["concurrency"] and item["rtfx"]]


def _busy(ratio: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    return [item for item in _loads(ratio) if item["concurrency"] >= 4]


def _at_least(goal: str, bound: float, measured: float | None) -> dict[str, Any]:
    met = None if measured is None else measured >= bound
    return {"goal": goal, "wanted": f"at least {bound:g}", "measured": measured, "met": met}


def _at_most(goal: str, bound: float, measured: float | None) -> dict[str, Any]:
    met = None if measured is None else measured <= bound
    return {"goal": goal, "wanted": f"at most {bound:g}", "measured": measured, "met": met}
