"""`python -m lab paths`: the same recordings down several paths of one server: WER against RTFx."""

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from conch.bench.figures import RunFigures, run_figures
from conch.bench.header import Flat, Header, origin
from conch.bench.load import Offer
from conch.bench.offline import send_all
from conch.bench.samples import Choice, load_samples
from conch.bench.servers import server_of, triton_version
from conch.cli.bench import LIMIT, URL, settings_of
from conch.scoring import COMPARING, require
from conch.scoring.error_rates import number, percent, table
from conch.wire.options import RecognitionOptions
from lab.arguments import named_options
from lab.command import Command, lab_header, reporting
from lab.reports import page, panels

CTC = {"decoder": "ctc"}
NGRAM = {"rescore": True, "rescorer": "ngram"}
NEURAL = {"rescore": True, "rescorer": "neural"}
WHISPER = {"decoder": "attention"}
MOONSHINE = {"decoder": "moonshine"}
PATHS: Mapping[str, Mapping[str, Any]] = {
    "Moonshine greedy": {**MOONSHINE, "beam_size": 1},
    "Moonshine beam": {**MOONSHINE, "beam_size": 5},
    "Moonshine, rescored by n-gram": {**MOONSHINE, **NGRAM},
    "Moonshine, rescored by CTC": {**MOONSHINE, "ctc_rescore": True},
    "Moonshine, balanced": {**MOONSHINE, "accuracy": "balanced"},
    "Moonshine, best": {**MOONSHINE, "accuracy": "best"},
    "Whisper greedy": {**WHISPER, "beam_size": 1},
    "Whisper beam": WHISPER,
    "Whisper, rescored by n-gram": {**WHISPER, **NGRAM},
    "Whisper, rescored by CTC": {**WHISPER, "ctc_rescore": True},
    "Whisper, balanced": {**WHISPER, "accuracy": "balanced"},
    "Whisper, best": {**WHISPER, "accuracy": "best"},
    "CTC greedy": {**CTC, "beam_size": 1},
    "CTC beam": CTC,
    "CTC beam, n-gram fusion": {**CTC, "lm_fusion": True},
    "CTC graph (WFST)": {"decoder": "wfst"},
    "CTC graph, rescored by n-gram": {"decoder": "wfst", **NGRAM},
    "CTC graph, rescored by neural model": {"decoder": "wfst", **NEURAL},
    "CTC graph, rescored by Whisper": {
        "decoder": "wfst",
        "attention_rescore": True,
        "beam_size": 8,
    },
    "CTC graph, best": {"decoder": "wfst", "accuracy": "best"},
    "CTC beam, rescored by n-gram": {**CTC, **NGRAM},
    "CTC beam, rescored by Whisper": {**CTC, "attention_rescore": True},
    "CTC fusion, rescored by Whisper": {**CTC, "lm_fusion": True, "attention_rescore": True},
}
_COLOURS = {
    "moonshine": "tab:blue",
    "attention": "tab:orange",
    "ctc": "tab:green",
    "wfst": "tab:red",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PathsBenchmark(Choice):
    concurrency: int = 4
    url: str | None = None
    warmup: int = 4
    paths: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: PATHS)
    reference: Path | None = None
    """The JSON of an earlier run, as that of a server on a CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFigures:
    name: str
    options: RecognitionOptions
    load: str
    figures: Flat[RunFigures]
    texts: Mapping[str, str]
    """By the name of a recording, of those that were answered."""
    differ: int | None = None
    """Texts that are not those of the reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathsReport:
    header: Flat[Header]
    paths: Sequence[PathFigures]


def run(benchmark: PathsBenchmark) -> PathsReport:
    utterances = benchmark.utterances()
    require(*COMPARING)
    samples = load_samples(utterances, "waveform")
    header = lab_header("paths", benchmark)
    offered = Offer(concurrency=benchmark.concurrency)
    reference = _texts_of(benchmark.reference) if benchmark.reference else None
    measured = []
    with server_of(benchmark.url) as (url, _):
        header = header.with_triton(triton_version(url))
        for name, options in benchmark.paths.items():
            load = asyncio.run(
                send_all(
                    url,
                    samples,
                    offered=offered,
                    options=options,
                    warmup=list(islice(cycle(samples), benchmark.warmup)),
                    title=name,
                )
            )
            texts = {
                samples[item.index].utterance.path.name: item.answer.text
                for item in load.outcomes
                if item.answer is not None
            }
            known = None if reference is None else reference.get(name, {})
            measured.append(
                PathFigures(
                    name=name,
                    options=RecognitionOptions.parse(options),
                    load=offered.load,
                    figures=run_figures(samples, load),
                    texts=texts,
                    differ=None if known is None else differing(texts, known),
                )
            )
    return PathsReport(header=header, paths=measured)


def _texts_of(file: Path) -> Mapping[str, Mapping[str, str]]:
    return {path["name"]: path["texts"] for path in json.loads(file.read_text("utf-8"))["paths"]}


def differing(texts: Mapping[str, str], reference: Mapping[str, str]) -> int:
    """Return how many texts another run has otherwise, or not at all."""
    return sum(text != reference.get(name) for name, text in texts.items())


def markdown(report: PathsReport) -> str:
    first = report.paths[0]
    sources = list(first.figures.accuracy.wer_by_source)
    columns = ["path", "RTFx", "p50 ms", "p99 ms", "WER %", *sources]
    is_compared = first.differ is not None
    columns += ["texts that differ"] * is_compared
    rows = [
        [
            path.name,
            number(path.figures.rtfx),
            number(path.figures.latency_ms.p50, 0),
            number(path.figures.latency_ms.p99, 0),
            percent(path.figures.accuracy.wer),
            *(percent(path.figures.accuracy.wer_by_source.get(source)) for source in sources),
            *([str(path.differ)] if is_compared else []),
        ]
        for path in report.paths
    ]
    where = origin(report.header, f"{first.figures.utterances} utterances", first.figures.audio_s)
    clients = f"closed loop, {report.header.settings['concurrency']} clients"
    return page(report.header, table(columns, rows), f"{clients}; {where}")


def plot(report: PathsReport, file: Path) -> None:
    """Draw WER against RTFx; lower and further right is better."""
    with panels(file) as (axes,):
        for path in report.paths:
            rtfx, wer = path.figures.rtfx, path.figures.accuracy.wer
            if rtfx and wer is not None:
                point = rtfx, 100 * wer
                axes.plot(*point, "o", color=_COLOURS.get(path.options.decoder, "black"))
                offset = {"xytext": (5, 4), "textcoords": "offset points"}
                axes.annotate(path.name, point, fontsize=8, **offset)
        axes.set(xscale="log", xlabel="RTFx", ylabel="WER, %")
        axes.grid(which="both", alpha=0.3)
        axes.margins(x=0.3, y=0.1)


def _measured(args: argparse.Namespace) -> PathsReport:
    more = {"paths": dict(args.paths)} if args.paths else {}
    return run(settings_of(PathsBenchmark, args, **more))


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--path",
        dest="paths",
        type=named_options,
        action="append",
        metavar="NAME[:OPTION=VALUE]…",
        help="a path and its options, as often as needed (default: every decoder, with and without "
        "each kind of rescoring)",
    )


COMMAND = Command(
    run=reporting(
        _measured,
        markdown,
        has_failed=lambda report: any(
            path.figures.errors == path.figures.utterances for path in report.paths
        ),
        plot=plot,
    ),
    description="Send the same recordings down several paths of one server, one after the other, "
    "in a closed loop.",
    epilog="""
examples:
  python -m lab paths --manifest speech/manifest.tsv --split dev --plot paths.png
  python -m lab paths --manifest calls.tsv --url gpu-box:8000 --reference cpu.json
  python -m lab paths --manifest calls.tsv --path fast:decoder=ctc:beam_size=1 --path best
""",
    flags=LIMIT
    + """
--concurrency N=4  clients at once
--reference FILE   the JSON of another run: count the texts that differ
--plot FILE.png    WER against RTFx
"""
    + URL,
    takes_manifest=True,
    add=_add,
)
