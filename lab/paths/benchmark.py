"""`conch bench roads`: the same recordings down several roads of one server: WER against RTFx.

The report is one JSON object: `roads`, a list with the `name`, `options` and figures of each (those
of a run of `conch bench offline`), and the header that an offline report has.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from conch.bench import require
from conch.bench.figures import run_figures
from conch.bench.load import Offer
from conch.bench.manifest import chosen
from conch.bench.offline import header, load_samples, own_or_running, send_all
from conch.bench.report import number, origin, percent, table
from conch.bench.served import triton_version
from conch.wire.options import RecognitionOptions

CTC = {"decoder": "ctc"}
ROADS: Mapping[str, Mapping[str, Any]] = {
    "attention": {},
    "attention, rescored by n-gram": {"rescore": True},
    "CTC greedy": {**CTC, "beam_size": 1},
    "CTC beam": CTC,
    "CTC beam, n-gram fusion": {**CTC, "lm_fusion": True},
    "CTC graph (WFST)": {"decoder": "wfst"},
    "CTC graph, rescored by n-gram": {"decoder": "wfst", "rescore": True},
    "CTC graph, rescored by attention": {
        "decoder": "wfst",
        "attention_rescore": True,
        "beam_size": 8,
    },
    "CTC beam, rescored by n-gram": {**CTC, "rescore": True},
    "CTC beam, rescored by attention": {**CTC, "attention_rescore": True},
    "CTC fusion, rescored by attention": {**CTC, "lm_fusion": True, "attention_rescore": True},
}
"""What is measured unless the command line names roads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoadsBenchmark:
    """What is measured, and how; fields as in `OfflineBenchmark`."""

    manifest: Path
    split: str | None = None
    source: str | None = None
    limit: int | None = None
    concurrency: int = 4
    url: str | None = None
    warmup: int = 4
    roads: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: ROADS)


def run(benchmark: RoadsBenchmark) -> dict[str, Any]:
    """Measure and return the report.

    Raises:
        BenchError: the manifest, an audio file or a package is missing.
        ServerError: no server answers, or it cannot be started.
    """
    require("jiwer", "whisper_normalizer")
    utterances = chosen(benchmark)
    samples = load_samples(utterances, "waveform")
    report: dict[str, Any] = {**header("roads", benchmark), "roads": []}
    offered = Offer(concurrency=benchmark.concurrency)
    with own_or_running(benchmark.url) as (url, _):
        report["versions"]["triton"] = triton_version(url)
        for name, options in benchmark.roads.items():
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
            figures = run_figures(utterances, [item.duration_s for item in samples], load)
            options = asdict(RecognitionOptions.parse(options))
            report["roads"].append(
                {"name": name, "options": options, "load": offered.load, **figures}
            )
    return report


def markdown(report: Mapping[str, Any]) -> str:
    """Return the table of a report and a line on where it comes from."""
    sources = list(report["roads"][0]["wer_by_source"])
    columns = ["road", "RTFx", "p50 ms", "p99 ms", "WER %", *sources]
    rows = [
        [
            road["name"],
            number(road["rtfx"]),
            number(road["latency_ms"]["p50"], 0),
            number(road["latency_ms"]["p99"], 0),
            percent(road["wer"]),
            *(percent(road["wer_by_source"].get(source)) for source in sources),
        ]
        for road in report["roads"]
    ]
    clients = f"{Offer(concurrency=report['concurrency']).title} clients"
    lines = [f"`{report['command']}`", table(columns, rows)]
    return "\n\n".join([*lines, f"{clients}; {origin(report, report['roads'][0])}"]) + "\n"


def plot(roads: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write a picture of WER against RTFx; what is down and to the right is better."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for road in (item for item in roads if item["rtfx"] and item["wer"] is not None):
        point = road["rtfx"], 100 * road["wer"]
        axes.plot(*point, "o")
        axes.annotate(road["name"], point, xytext=(5, 4), textcoords="offset points", fontsize=8)
    axes.set(xscale="log", xlabel="RTFx", ylabel="WER, %")
    axes.grid(which="both", alpha=0.3)
    axes.margins(x=0.3, y=0.1)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
