"""Ends of turns: rules replayed over what is heard in pauses, or a real server's."""

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conch.bench.header import Flat, Header, origin
from conch.bench.load import progress
from conch.bench.servers import triton_version
from conch.cli.bench import OPTION, URL, options_of, settings_of
from conch.cli.server import server_url
from conch.component import SAMPLE_RATE
from conch.families.turns import TurnOptions
from conch.scoring.error_rates import number, percent
from lab.command import Command, lab_header, reporting
from lab.endpoints import replay
from lab.endpoints.made_turns import made_turns
from lab.endpoints.replay import EagerFigures, End, Figures, Turn
from lab.endpoints.served import ServedFigures, spoken
from lab.endpoints.signals import Listener, Signals
from lab.reports import Columns, page, table_of

SOURCES = ("ljspeech", "common_voice")
SILENCES_S = (0.3, 0.5, 0.8, 1.0, 1.5)
MOST_S = (0.8, 1.0, 1.2)
"""Delays up to which a rule is chosen."""
BUILT_S = (1.0, 1.5)
"""Silences of `eagerness` high and medium."""
THRESHOLDS = (0.3, 0.5, 0.7, 0.9)
"""Of eager ends."""
SERVED: Sequence[Mapping[str, Any]] = (
    {"endpoint_silence_ms": 300},
    {"endpoint_silence_ms": 1000},
    {"endpoint_silence_ms": 1000, "semantic_endpointing": True},
    {"endpoint_silence_ms": 1500, "semantic_endpointing": True},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsBenchmark:
    manifest: Path
    sources: tuple[str, ...] = SOURCES
    turns: int = 300
    seed: int = 7
    eager: bool = False
    served: bool = False
    url: str | None = None
    streams: int = 2
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFigures:
    """A rule, chosen on one half of the turns and judged on the other."""

    rule: str
    delay: str
    """The delay that limits the choice: median or mean."""
    judged: Flat[Figures]
    silence_cuts: float
    """Cuts of silence alone at an equal delay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsReport:
    header: Flat[Header]
    turns: int
    audio_s: float
    silences: Sequence[tuple[float, Figures]] = ()
    rules: Sequence[RuleFigures] = ()
    ends: Sequence[tuple[str, Figures]] = ()
    """The end of turns beside eager ends."""
    eager: Sequence[EagerFigures] = ()
    served: Sequence[ServedFigures] = ()


def run(benchmark: EndpointsBenchmark) -> EndpointsReport:
    header = lab_header("endpoints", benchmark)
    if benchmark.served:
        return _served(benchmark, header)
    pauses = _signals(benchmark)
    choosing, judging = replay.turns_of(pauses)
    if benchmark.eager:
        return _eager([*choosing, *judging], header)
    delays = ("median_s", "mean_s")
    built = [
        _compared(f"built, {long_s:g} s", delay, _built(long_s), judging)
        for long_s in BUILT_S
        for delay in delays
    ]
    tried = [
        _compared(name, delay, rule, judging)
        for name, item in replay.SIGNS.items()
        for delay in delays
        for most_s in MOST_S
        if (rule := replay.chosen(choosing, item, most_s, delay))
    ]
    return EndpointsReport(
        header=header,
        turns=len(choosing) + len(judging),
        audio_s=round(sum(turn[-1].start_s for turn in (*choosing, *judging)), 1),
        silences=[
            (seconds, replay.figures(judging, replay.silence(seconds))) for seconds in SILENCES_S
        ],
        # Two limits may choose the same rule.
        rules=list(dict.fromkeys([*built, *tried])),
    )


def _eager(turns: Sequence[Turn], header: Header) -> EndpointsReport:
    """Return what eager ends do, beside the end after silence of at most BUILT_S."""
    built = _built(BUILT_S[-1])
    ends = {f"silence {BUILT_S[0]:g} s": replay.silence(BUILT_S[0]), "end": built}
    return EndpointsReport(
        header=header,
        turns=len(turns),
        audio_s=round(sum(turn[-1].start_s for turn in turns), 1),
        ends=[(name, replay.figures(turns, end)) for name, end in ends.items()],
        eager=[replay.eager_figures(turns, threshold, built) for threshold in THRESHOLDS],
    )


def _built(long_s: float) -> End:
    """Return the rule of the option `semantic_endpointing`."""
    least = replay.log_odds(TurnOptions.end_threshold)
    return replay.signs(replay.SIGNS["smart-turn"], least, long_s)


def _compared(name: str, delay: str, rule: End, judging: Sequence[Turn]) -> RuleFigures:
    """Return what a rule does to turns next to silence alone; `delay` is a field of `Figures`."""
    result = replay.figures(judging, rule)
    return RuleFigures(
        rule=name,
        delay=delay.removesuffix("_s"),
        judged=result,
        silence_cuts=replay.cuts_of_silence(judging, getattr(result, delay), delay),
    )


def _signals(benchmark: EndpointsBenchmark) -> list[Signals]:
    listener, all_signals = Listener(has_texts=not benchmark.eager), list[Signals]()
    made = made_turns(benchmark.manifest, benchmark.sources, benchmark.turns, benchmark.seed)
    with progress("turns", benchmark.turns * len(benchmark.sources)) as bar:
        for turn in made:
            all_signals += listener.signals(turn)
            bar.update()
    return all_signals


def _served(benchmark: EndpointsBenchmark, header: Header) -> EndpointsReport:
    made = [*made_turns(benchmark.manifest, benchmark.sources, benchmark.turns, benchmark.seed)]
    requests = [{**options, **benchmark.options} for options in SERVED]
    with server_url(benchmark.url, requests, live=True) as url:
        header = header.with_triton(triton_version(url))
        asyncio.run(spoken(url, made[:2], requests[-1], 1))  # warms up
        results = [asyncio.run(spoken(url, made, item, benchmark.streams)) for item in requests]
    return EndpointsReport(
        header=header,
        turns=len(made),
        audio_s=round(sum(len(turn.waveform) for turn in made) / SAMPLE_RATE, 1),
        served=results,
    )


DELAYS: Columns[Any] = (
    ("median s", lambda item: number(item.median_s, 2)),
    ("mean s", lambda item: number(item.mean_s, 2)),
)
FIGURES: Columns[Any] = (("cut %", lambda item: percent(item.cuts)), *DELAYS)


def markdown(report: EndpointsReport) -> str:
    served = table_of(report.served, (("options", lambda item: _named(item.options)), *FIGURES))
    silences = [(f"silence {seconds:g} s", "", item, None) for seconds, item in report.silences]
    chosen = [(item.rule, item.delay, item.judged, item.silence_cuts) for item in report.rules]
    rules = table_of(
        [*silences, *chosen],
        (
            ("rule", lambda row: row[0]),
            ("chosen by", lambda row: row[1]),
            *((title, lambda row, cell=cell: cell(row[2])) for title, cell in FIGURES),
            ("silence: cut", lambda row: "" if row[3] is None else percent(row[3])),
            ("fewer", lambda row: "" if row[3] is None else _fewer(row[2].cuts, row[3])),
        ),
    )
    ends: list[tuple[str, str, Figures | EagerFigures, str]]
    ends = [(name, "", item, "") for name, item in report.ends]
    ends += [
        (f"eager, {item.threshold:g}", percent(item.told), item, percent(item.taken_back))
        for item in report.eager
    ]
    eager = table_of(
        ends,
        (
            ("", lambda row: row[0]),
            ("told %", lambda row: row[1]),
            ("cut %", lambda row: percent(row[2].cuts)),
            ("taken back %", lambda row: row[3]),
            *((title, lambda row, cell=cell: cell(row[2])) for title, cell in DELAYS),
        ),
    )
    said = f"{report.turns} turns"
    # Replayed rules need no server, and take the same whatever the machine.
    where = origin(report.header, said, report.audio_s) if report.served else said
    return page(report.header, served, rules, eager, where)


def _named(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def _fewer(cuts: float, others: float) -> str:
    return percent(1 - cuts / max(others, 1e-9))


def _measured(args: argparse.Namespace) -> EndpointsReport:
    options, sources = options_of(args, live=True), tuple(args.source or SOURCES)
    return run(settings_of(EndpointsBenchmark, args, sources=sources, options=options))


COMMAND = Command(
    run=reporting(_measured, markdown),
    description="Make turns with hesitations of recordings with punctuated texts, and replay rules "
    "for their ends over what is heard in the pauses; or speak them to a server.",
    epilog="""
examples:
  python -m lab endpoints --manifest speech/manifest.tsv
  python -m lab endpoints --manifest speech/manifest.tsv --served --turns 20
""",
    flags="""
--manifest FILE!  recordings with punctuated texts
--source NAME...  (default: ljspeech and common_voice)
--turns N=300     most turns of each source
--seed COUNT=7    of all that is drawn
--eager           eager ends beside ends, by smart-turn alone
--served          speak the turns to a server
--streams N=2     with --served: turns at a time
"""
    + OPTION
    + URL,
)
