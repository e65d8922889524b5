"""Send the same recordings with and without hotwords, and count what is found."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conch.bench.header import Header
from conch.bench.load import Load, Offer
from conch.bench.manifest import Utterance, chosen, read_manifest
from conch.bench.measures import Latency, latency_ms
from conch.bench.offline import check_packages, send_all
from conch.bench.records import Flat
from conch.bench.report import origin
from conch.bench.samples import Sample, load_samples
from conch.bench.served import triton_version
from conch.bench.tables import number, percent, table
from conch.bench.target import server_of
from conch.wire.result import Transcript
from lab.header import lab_header
from lab.names.figures import NameFigures, name_figures
from lab.names.selection import Names, frequent_words, names_of

PATHS: Mapping[str, Mapping[str, Any]] = {
    "attention": {},
    "CTC beam": {"decoder": "ctc"},
    "CTC beam, n-gram fusion": {"decoder": "ctc", "lm_fusion": True},
    "CTC graph (WFST)": {"decoder": "wfst"},
}
"""Options of each path that is measured by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesBenchmark:
    """Settings of the benchmark; fields as in `OfflineBenchmark`."""

    manifest: Path
    split: str | None = None
    source: str | None = None
    limit: int | None = None
    said: int = 100
    others: int = 1000
    concurrency: int = 4
    url: str | None = None
    paths: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: PATHS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathNames:
    """A path without and with hotwords."""

    name: str
    options: Mapping[str, Any]
    without: Flat[NameFigures]
    hot: Flat[NameFigures]
    latency_without_ms: Latency
    latency_hot_ms: Latency


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesReport:
    """The report of the benchmark."""

    header: Flat[Header]
    names: Names
    utterances: int
    audio_s: float
    paths: Sequence[PathNames]


def run(benchmark: NamesBenchmark) -> NamesReport:
    """Measure and return the report.

    Raises:
        BenchError: the manifest, an audio file or a package is missing, or it has too few names.
        ServerError: no server answers, or it cannot be started.
    """
    utterances = chosen(benchmark)
    check_packages(benchmark.url, utterances)
    paths = {item.path for item in utterances}
    elsewhere = [item for item in read_manifest(benchmark.manifest) if item.path not in paths]
    names = names_of(
        utterances,
        elsewhere,
        said=benchmark.said,
        others=benchmark.others,
        frequent=frequent_words(),
    )
    samples = load_samples(utterances, "waveform")
    header = lab_header("names", benchmark)
    found = []
    with server_of(benchmark.url) as (url, _):
        header = header.with_triton(triton_version(url))
        for name, options in benchmark.paths.items():
            without = _sent(benchmark, url, samples, name, options)
            hot_options = {**options, "hotwords": names.hotwords}
            hot = _sent(benchmark, url, samples, f"{name}, hotwords", hot_options)
            found.append(
                PathNames(
                    name=name,
                    options=options,
                    without=name_figures(_pairs(utterances, without), names),
                    hot=name_figures(_pairs(utterances, hot), names),
                    latency_without_ms=_latency(without),
                    latency_hot_ms=_latency(hot),
                )
            )
    return NamesReport(
        header=header,
        names=names,
        utterances=len(utterances),
        audio_s=sum(item.duration_s for item in samples),
        paths=found,
    )


def _sent(
    benchmark: NamesBenchmark,
    url: str,
    samples: Sequence[Sample],
    title: str,
    options: Mapping[str, Any],
) -> Load[Transcript]:
    offered = Offer(concurrency=benchmark.concurrency)
    sending = send_all(
        url, samples, offered=offered, options=options, warmup=samples[:2], title=title
    )
    return asyncio.run(sending)


def _pairs(utterances: Sequence[Utterance], load: Load[Transcript]) -> list[tuple[str, str]]:
    """Return reference and text of what was answered."""
    return [
        (utterances[item.index].text, item.answer.text) for item in load.outcomes if item.answer
    ]


def _latency(load: Load[Transcript]) -> Latency:
    return latency_ms([item.latency_s for item in load.outcomes if item.answer])


def markdown(report: NamesReport) -> str:
    """Return the table of a report and a line on its origin."""
    hours = report.audio_s / 3600
    columns = [
        *("path", "recall without %", "recall %", "other words' WER without %", "WER %"),
        *("invented without", "invented", "an hour", "p50 x"),
    ]
    rows = [
        [
            path.name,
            percent(path.without.recall),
            percent(path.hot.recall),
            percent(path.without.rest_wer),
            percent(path.hot.rest_wer),
            str(path.without.invented),
            str(path.hot.invented),
            number(path.hot.invented / hours),
            number(_ratio(path.latency_hot_ms.p50, path.latency_without_ms.p50), 2),
        ]
        for path in report.paths
    ]
    names = report.names
    said = report.paths[0].without.said
    what = f"{len(names.said)} names, said {said} times, among {len(names.others)} distractors"
    where = origin(report.header, f"{report.utterances} utterances", report.audio_s)
    lines = [f"`{report.header.command}`", table(columns, rows), f"{what}; {where}"]
    return "\n\n".join(lines) + "\n"


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None
