"""Hotwords by several configurations: names found, other words spoiled, names invented, latency."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from conch.bench.header import Flat, Header, origin
from conch.bench.load import Outcome, closed_loop, progress
from conch.bench.samples import Choice, Sample, load_samples
from conch.bench.servers import triton_version
from conch.cli.arguments import UsageError
from conch.cli.bench import LIMIT, URL, settings_of, write_report
from conch.cli.server import server_url
from conch.client import AsyncClient
from conch.scoring import COMPARING, require
from conch.scoring.error_rates import number, percent
from conch.scoring.manifest import ManifestEntry, read_manifest, select, spread
from conch.wire.errors import BenchError, OptionError
from conch.wire.options import RecognitionOptions
from conch.wire.result import Transcript
from lab.arguments import named_options
from lab.command import Command, lab_header
from lab.names.chosen import Names, chosen_names, words_of
from lab.names.counted import NameCounts, counts, total
from lab.reports import page, table_of
from lab.turns import rotated

LISTED = ("names", "hotwords", "prompt")
"""Options whose value may be the list."""
_DECODERS: Mapping[str, Mapping[str, Any]] = {
    "moonshine": {"decoder": "moonshine"},
    "moonshine beam": {"decoder": "moonshine", "beam_size": 5},
    "attention": {"decoder": "attention"},
    "ctc": {"decoder": "ctc"},
    "ctc fusion": {"decoder": "ctc", "lm_fusion": True},
    "wfst": {"decoder": "wfst"},
}
RUNS: Mapping[str, Mapping[str, Any]] = {
    **_DECODERS,
    **{f"{name} hotwords": {**options, "hotwords": True} for name, options in _DECODERS.items()},
}
"""Options of each run that is measured by default; True stands for the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesBenchmark(Choice):
    split: str | None = "dev"
    train_split: str = "train"
    """Split whose names are distractors, and whose words are no names to find."""
    limit: int | None = None
    """Largest number of utterances, half of them with names as long as there are."""
    names: int = 100
    distractors: int = 1000
    unlisted: bool = False
    """Take only names that the graph in Conch lacks."""
    concurrency: int = 1
    url: str | None = None
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: RUNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    name: str
    options: RecognitionOptions
    """Options of the requests, defaults included; without the list."""
    counts: Flat[NameCounts]
    """Over all utterances that were answered."""
    latency_ms: float | None
    """Median."""
    latency_ratio: float | None
    """To the median of the run with the same options but no hotwords; None if there is none."""
    errors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesReport:
    header: Flat[Header]
    names: Names
    utterances: int
    with_names: int
    """Utterances with a listed name."""
    audio_s: float
    runs: Sequence[RunFigures]


def run(benchmark: NamesBenchmark) -> NamesReport:
    """Measure and return the report.

    The runs take turns at each utterance, so that the load of the machine is the same for all.
    """
    names = listed(benchmark)
    sent = {name: _sent(options, names) for name, options in benchmark.runs.items()}
    for options in sent.values():
        RecognitionOptions.parse(options)
    samples = load_samples(some_of(_spoken(benchmark), names, benchmark.limit), "waveform")
    header = lab_header("names", benchmark)
    with server_url(benchmark.url, sent.values()) as url:
        header = header.with_triton(triton_version(url))
        outcomes = asyncio.run(answers(url, samples, sent, benchmark.concurrency))
    latencies = {name: _median_ms(items) for name, items in outcomes.items()}
    return NamesReport(
        header=header,
        names=names,
        utterances=len(samples),
        with_names=sum(has_name(item.utterance, names) for item in samples),
        audio_s=round(sum(item.duration_s for item in samples), 3),
        runs=[
            figures(
                name,
                RecognitionOptions.parse(_without_list(benchmark.runs[name])),
                samples,
                items,
                names,
                latencies.get(_counterpart(name, benchmark.runs) or ""),
            )
            for name, items in outcomes.items()
        ],
    )


def dictionary() -> Any:
    import spylls
    from spylls.hunspell import Dictionary

    return Dictionary.from_files(str(Path(spylls.__path__[0], "hunspell", "data", "en", "en_US")))


def graph_words() -> frozenset[str]:
    from conch.decoding.graph.fst_arrays import open_fst
    from conch.families.ctc.decoder import unpacked_graph

    _, (_, words) = open_fst(unpacked_graph()).symbols
    return frozenset(words)


def listed(
    benchmark: NamesBenchmark,
    spelling: Callable[[], Any] = dictionary,
    words_of_graph: Callable[[], frozenset[str]] = graph_words,
) -> Names:
    """Return the list of hotwords, or raise a BenchError if there are no names."""
    require(*COMPARING)
    require("spylls", extra="lab")
    is_spelled = spelling().lookup
    in_graph = words_of_graph() if benchmark.unlisted else frozenset[str]()
    names = chosen_names(
        _spoken(benchmark),
        select(read_manifest(benchmark.manifest), split=benchmark.train_split),
        lambda word: word in in_graph or is_spelled(word),
        benchmark.names,
        benchmark.distractors,
    )
    if not names.said:
        raise BenchError("the references have no name that the training references lack")
    return names


def has_name(utterance: ManifestEntry, names: Names) -> bool:
    return not words_of([utterance]).isdisjoint(names.said)


def some_of(
    utterances: Sequence[ManifestEntry], names: Names, limit: int | None
) -> list[ManifestEntry]:
    """Return at most `limit` utterances, half of them with names as long as there are."""
    if limit is None:
        return list(utterances)
    with_names = [item for item in utterances if has_name(item, names)]
    without = [item for item in utterances if not has_name(item, names)]
    kept = spread(with_names, min(limit, max((limit + 1) // 2, limit - len(without))))
    return kept + (spread(without, limit - len(kept)) if len(kept) < limit else [])


async def answers(
    url: str,
    samples: Sequence[Sample],
    runs: Mapping[str, Mapping[str, Any]],
    concurrency: int,
) -> dict[str, list[Outcome[Transcript]]]:
    """Return the outcomes of each run, in the order of the samples."""
    warm_ups = [(samples[0], name) for name in runs]
    # Each run is the first to hear some of the utterances.
    requests = [
        (sample, name) for number, sample in enumerate(samples) for name in rotated([*runs], number)
    ]
    async with AsyncClient(url) as client:

        async def transcribe(sample: Sample, name: str) -> Transcript:
            options = runs[name]
            return await client.transcribe(sample.audio, sample_rate=sample.sample_rate, **options)

        await closed_loop(lambda index: transcribe(*warm_ups[index]), len(warm_ups), 1)
        with progress("all runs", len(requests)) as bar:

            def show(outcome: Outcome[Transcript]) -> None:
                if outcome.error:
                    path = requests[outcome.index][0].utterance.path
                    tqdm.write(f"{path}: {outcome.error}", file=sys.stderr)
                bar.update()

            load = await closed_loop(
                lambda index: transcribe(*requests[index]), len(requests), concurrency, show
            )
    by_run: dict[str, list[Outcome[Transcript]]] = {name: [] for name in runs}
    for outcome in load.outcomes:
        by_run[requests[outcome.index][1]].append(outcome)
    return by_run


def figures(
    name: str,
    options: RecognitionOptions,
    samples: Sequence[Sample],
    outcomes: Sequence[Outcome[Transcript]],
    names: Names,
    without_ms: float | None,
) -> RunFigures:
    """Return the figures of a run; `without_ms` is the median latency without hotwords."""
    listed = frozenset((*names.said, *names.distractors))
    all_counts = total(
        counts(sample.utterance.text, outcome.answer.text, listed)
        for sample, outcome in zip(samples, outcomes, strict=True)
        if outcome.answer is not None
    )
    own_ms = _median_ms(outcomes)
    return RunFigures(
        name=name,
        options=options,
        counts=all_counts,
        latency_ms=own_ms,
        latency_ratio=round(own_ms / without_ms, 3) if own_ms and without_ms else None,
        errors=sum(outcome.answer is None for outcome in outcomes),
    )


def markdown(report: NamesReport) -> str:
    shown = table_of(
        report.runs,
        (
            ("run", lambda run: run.name),
            ("names found %", lambda run: percent(run.counts.recall)),
            ("found", lambda run: f"{run.counts.correct} of {run.counts.names}"),
            ("WER % of the rest", lambda run: percent(run.counts.other_wer)),
            ("invented", lambda run: run.counts.invented),
            ("latency", lambda run: number(run.latency_ratio, 2)),
        ),
    )
    listed = (
        f"{len(report.names.said)} names among {len(report.names.distractors)} distractors; "
        f"{report.with_names} utterances with a listed name; latency: ratio of medians to the "
        "same options without hotwords"
    )
    errors = sum(item.errors for item in report.runs)
    return page(
        report.header,
        shown,
        f"**{errors} requests failed and do not count.**" if errors else "",
        f"{listed}; {origin(report.header, f'{report.utterances} utterances', report.audio_s)}",
    )


def _spoken(benchmark: NamesBenchmark) -> list[ManifestEntry]:
    return replace(benchmark, limit=None).utterances()


def _sent(options: Mapping[str, Any], names: Names) -> dict[str, Any]:
    lists = {"names": names.hotwords, "hotwords": names.hotwords, "prompt": names.prompt}
    return {
        key: lists[key] if key in lists and value is True else value
        for key, value in options.items()
    }


def _without_list(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key not in (*LISTED, "hotword_weight")}


def _counterpart(name: str, runs: Mapping[str, Mapping[str, Any]]) -> str | None:
    if runs[name].keys().isdisjoint(LISTED):
        return None
    wanted = _without_list(runs[name])
    return next((other for other, options in runs.items() if dict(options) == wanted), None)


def _median_ms(outcomes: Sequence[Outcome[Transcript]]) -> float | None:
    answered = [outcome.latency_s for outcome in outcomes if outcome.answer is not None]
    return round(1000 * median(answered), 3) if answered else None


def run_command(args: argparse.Namespace) -> int:
    settings = settings_of(NamesBenchmark, args, runs=dict(args.runs) or RUNS)
    if args.list:
        names = listed(settings)
        print("\n".join((*names.said, "", *names.distractors)))
        return 0
    try:
        report = run(settings)
    except OptionError as error:
        raise UsageError(str(error)) from None
    write_report(args, report, markdown(report))
    return 1 if any(item.errors == report.utterances for item in report.runs) else 0


def _run(text: str) -> tuple[str, Mapping[str, Any]]:
    if text in RUNS:
        return text, RUNS[text]
    name, *pairs = text.split(":")
    others = [pair for pair in pairs if pair not in LISTED]
    _, options = named_options(":".join([name, *others]))
    return name, {**options, **{key: True for key in LISTED if key in pairs}}


def _add(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(split="dev")
    parser.add_argument(
        "--run",
        dest="runs",
        type=_run,
        action="append",
        default=[],
        metavar="NAME[:OPTION=VALUE]…",
        help="a run, as often as needed (default: every decoder with and without hotwords)",
    )


COMMAND = Command(
    run=run_command,
    description="Send a split with a list of hotwords: rare names that it speaks of, among names "
    "of the training split that are never said. Count the names that are found.",
    epilog="""
A run is a name and its options. `names`, `hotwords` and `prompt` among them without a value stand
for the list. A name alone is one of the default runs: moonshine, moonshine beam, attention, ctc,
ctc fusion, wfst, each also with ` hotwords` behind it.

examples:
  python -m lab names --manifest speech/manifest.tsv
  python -m lab names --manifest speech/manifest.tsv --limit 60 --run wfst --run "wfst hotwords"
  python -m lab names --manifest speech/manifest.tsv --run wfst \\
      --run "graph at 6:decoder=wfst:hotword_weight=6:hotwords"
  python -m lab names --manifest speech/manifest.tsv --names 40 --distractors 0 \\
      --run attention --run "attention hotwords" --run prompted:prompt
""",
    flags=LIMIT
    + """
--train-split NAME=train  whose names are distractors, and whose words are not looked for
--names N=100             names to find
--distractors COUNT=1000      names in the list that are never said
--unlisted                take only names that the graph in Conch lacks, for a graph with words of
                          one's own
--list                    print the list of hotwords and measure nothing
--concurrency N=1         clients at once
"""
    + URL,
    add=_add,
    takes_manifest=True,
)
