"""`python -m lab cost`: where the CPU time of a second of audio goes."""

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from conch.bench.figures import StreamRecord
from conch.bench.live import LiveBenchmark, observed, scripts
from conch.bench.load import Offer
from conch.bench.offline import send_all
from conch.bench.samples import Choice, Sample, load_samples
from conch.bench.servers import own_server
from conch.cli.arguments import UsageError
from conch.scoring.error_rates import number, table
from lab.command import Command
from lab.growth.benchmark import at_16_khz, clips, joined
from lab.reports import panels

PATHS: Mapping[str, Mapping[str, str]] = {
    "fast": {},
    "balanced": {"accuracy": "balanced"},
    "best": {"accuracy": "best"},
    "speakers=auto": {"speakers": "auto"},
}
OF_CAPACITY: Mapping[str, Mapping[str, str]] = {
    "attention": {"decoder": "attention"},
    "graph": {"decoder": "wfst"},
}
LIVE = "8 live streams"
STREAMS, STREAM_S = 8, 30
SHOWN = 0.001
"""Least CPU seconds per second of audio of a process that is named."""

Costs = Mapping[str, Mapping[str, float]]
"""CPU seconds per second of audio, by path and process."""


def measured(samples: Sequence[Sample], length_s: int, count: int) -> Costs:
    audio = [item.audio for item in samples if isinstance(item.audio, np.ndarray)]
    recordings = clips(joined(audio), length_s, count)
    return costs(recordings, Offer(concurrency=1), PATHS, samples, {"mode": "two_pass"})


def capacities(samples: Sequence[Sample]) -> Costs:
    """Return the costs that `lab.capacity` computes with: of utterances, eight at once."""
    return costs(samples, Offer(concurrency=STREAMS), OF_CAPACITY, samples, OF_CAPACITY["graph"])


def costs(
    recordings: Sequence[Sample],
    offered: Offer,
    paths: Mapping[str, Mapping[str, str]],
    samples: Sequence[Sample],
    live: Mapping[str, str],
) -> Costs:
    """Return the costs of recordings down some paths, and of live streams of samples (16 kHz)."""
    by_path: dict[str, dict[str, float]] = {}
    audio_s = sum(item.duration_s for item in recordings)
    with own_server() as (url, memory):
        for path, options in paths.items():
            asyncio.run(send_all(url, recordings[:1], offered=offered, options=options))  # loads
            before = memory.cpu_s()
            asyncio.run(send_all(url, recordings, offered=offered, options=options))
            used = memory.cpu_since(before)
            by_path[path] = {name: value / audio_s for name, value in used.items()}
        benchmark = LiveBenchmark(manifest=Path(), seconds=STREAM_S, options=live, warmup_s=0)
        said = scripts(samples, STREAMS, benchmark)
        streamed = observed(url, said, benchmark, memory, StreamRecord).cpu_s or {}
        audio_s = sum(len(script.waveform) / script.sample_rate for script in said)
        by_path[LIVE] = {name: value / audio_s for name, value in streamed.items()}
    return by_path


def markdown(costs: Costs) -> str:
    """Return a row for each process, the dearest one first, and a column for each path."""
    names = sorted(
        {name for used in costs.values() for name, value in used.items() if value >= SHOWN},
        key=lambda name: -max(used.get(name, 0.0) for used in costs.values()),
    )
    rows = [[name, *(number(used.get(name, 0.0), 4) for used in costs.values())] for name in names]
    total = ["all", *(number(sum(used.values()), 4) for used in costs.values())]
    return table(["CPU s / audio s", *costs], [*rows, total])


def plot(runs: Mapping[str, Costs], path: Path) -> None:
    titles = [(way, run) for way in next(iter(runs.values())) for run in runs][::-1]
    labels = [f"{way}\n{run}" for way, run in titles]
    every = [runs[run][way] for way, run in titles]
    names = dict.fromkeys(
        name for used in every[::-1] for name, value in used.items() if value >= SHOWN
    )
    with panels(path) as (axes,):
        from matplotlib import colormaps

        axes.set_prop_cycle(color=[colormaps["tab20"](number) for number in range(20)])
        left = [0.0] * len(every)
        for name in names:
            widths = [used.get(name, 0.0) for used in every]
            axes.barh(labels, widths, left=left, label=name)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set(xlabel="CPU seconds per second of audio")


def run_command(args: argparse.Namespace) -> int:
    if not (args.compare or args.manifest):
        raise UsageError("give --manifest to measure, or --compare to compare files")
    if args.compare:
        runs = {path.stem: json.loads(path.read_text()) for path in args.compare}
    else:
        choice = Choice(manifest=args.manifest, split=args.split, limit=args.limit)
        samples = [at_16_khz(item) for item in load_samples(choice.utterances(), "waveform")]
        by_length = partial(measured, length_s=args.length, count=args.recordings)
        runs = {"now": (capacities if args.capacity else by_length)(samples)}
    for name, used in runs.items():
        print(f"{name}\n\n{markdown(used)}\n")
        if args.json and not args.compare:
            args.json.write_text(json.dumps(used, indent=1))
    if args.plot:
        plot(runs, args.plot)
    return 0


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--compare", type=Path, nargs="+", metavar="FILE.json", help="earlier figures, not measured"
    )


COMMAND = Command(
    run=run_command,
    description="Measure the CPU time of a second of audio, by process, for each path. One client "
    "sends recordings, which are joined utterances. Live streams run in real time.",
    epilog="""
examples:
  python -m lab cost --manifest speech/manifest.tsv --split dev --json cost.json
  python -m lab cost --compare before.json cost.json --plot cost.png
  python -m lab cost --manifest speech/manifest.tsv --split dev --limit 96 --capacity
""",
    flags="""
--manifest FILE   utterances to join
--split SPLIT     one part of the manifest (default: all)
--limit N=60      utterances
--length N=180    seconds of a recording
--recordings N=2  of each path
--capacity        what lab/capacity computes with: utterances as they are, eight at once
--json FILE       write the figures here
--plot FILE.png   draw them here, one bar for each file
""",
    add=_add,
    has_report=False,
)
