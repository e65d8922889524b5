"""A report of `conch bench growth` as Markdown and as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conch.bench.plots import panels
from conch.bench.report import number, percent, table

PROCESSES = ("vad", "attention_encoder", "attention_decoder", "speech", "tritonserver")
COST = ["CPU s / audio s", "of it not components'", "not components' %"]
MEMORY = ["`speech` MB", "all MB"]

PANELS = (
    ("lengths", "length_s", "seconds of a recording, one client"),
    ("concurrency", "concurrency", "clients, recordings of 5 s"),
    ("streams", "streams", "live streams"),
)
"""Part of the report, what grows in it, and what the picture calls that."""


def markdown(report: Mapping[str, Any]) -> str:
    """Return a table for each part of a report and a line on where they come from."""
    machine, versions = report["machine"], report["versions"]
    where = (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']:g} GB, load average "
        f"{machine['load_average']:g} at the start; Triton {versions['triton']}, Python "
        f"{versions['python']}; {report['started_at']}"
    )
    tables = [_lengths(report), _concurrency(report), _streams(report), _models(report)]
    parts = [f"`{report['command']}`", *filter(None, tables), *_errors(report), where]
    return "\n\n".join(parts) + "\n"


def plot(report: Mapping[str, Any], path: Path) -> None:
    """Draw CPU seconds per audio second against what grows, of each part that has rows."""
    parts = [item for item in PANELS if report[item[0]]]
    with panels(path, len(parts)) as row:
        for axes, (part, key, title) in zip(row, parts, strict=True):
            known = [item for item in report[part] if item["cpu_s_per_audio_s"]]
            grown = [item[key] for item in known]
            total = [item["cpu_s_per_audio_s"]["total"] for item in known]
            orchestration = [item["orchestration_cpu_s_per_audio_s"] for item in known]
            axes.plot(grown, total, "o-", label="all processes")
            axes.plot(grown, orchestration, "o-", label="not components'")
            axes.set(xlabel=title, xscale="log", ylim=(0, None))
            axes.set_xticks(grown, [str(value) for value in grown])
            axes.minorticks_off()
        row[0].set_ylabel("CPU seconds per second of audio")


def _lengths(report: Mapping[str, Any]) -> str:
    header = ["seconds of a recording", "requests", "calls/request", *COST, "RTFx", "p50 ms"]
    rows = [
        [
            str(row["length_s"]),
            str(row["utterances"]),
            _calls(row),
            *_cost(row),
            number(row["rtfx"]),
            number(row["latency_ms"]["p50"], 0),
            *_memory(row),
        ]
        for row in report["lengths"]
    ]
    return table([*header, *MEMORY], rows) if rows else ""


def _concurrency(report: Mapping[str, Any]) -> str:
    header = ["clients, 5 s", "requests", "errors", *COST, "RTFx", "p50 ms", "p99 ms", *MEMORY]
    rows = [
        [
            str(row["concurrency"]),
            str(row["utterances"]),
            str(row["errors"]),
            *_cost(row),
            number(row["rtfx"]),
            *(number(row["latency_ms"][name], 0) for name in ("p50", "p99")),
            *_memory(row),
        ]
        for row in report["concurrency"]
    ]
    return table(header, rows) if rows else ""


def _streams(report: Mapping[str, Any]) -> str:
    header = ["streams", "keeps up", "chunks", "CPU ms/chunk", *COST, "p50 ms", "p99 ms", *MEMORY]
    rows = [
        [
            str(row["streams"]),
            "yes" if row["keeps_up"] else "no",
            str(row["chunks"]),
            number(row["cpu_ms_per_chunk"]),
            *_cost(row),
            *(number(row["chunk_latency_ms"][name], 0) for name in ("p50", "p99")),
            *_memory(row),
        ]
        for row in report["streams"]
    ]
    return table(header, rows) if rows else ""


def _models(report: Mapping[str, Any]) -> str:
    header = ["model", "RTFx", "WER %", *COST, *(f"`{name}`" for name in PROCESSES), "all MB"]
    rows = [
        [
            row["model"],
            number(row["rtfx"]),
            percent(row["wer"]),
            *_cost(row),
            *(number((row["cpu_s_per_audio_s"] or {}).get(name), 4) for name in PROCESSES),
            number(row["peak_memory_mb"], 0),
        ]
        for row in report["models"]
    ]
    return table(header, rows) if rows else ""


def _calls(row: Mapping[str, Any]) -> str:
    return number(sum(item["calls"] for name, item in row["stages"].items() if name != "total"))


def _cost(row: Mapping[str, Any]) -> list[str]:
    total = (row["cpu_s_per_audio_s"] or {}).get("total")
    share = row["orchestration_share"]
    return [
        number(total, 4),
        number(row["orchestration_cpu_s_per_audio_s"], 5),
        percent(share),
    ]


def _memory(row: Mapping[str, Any]) -> list[str]:
    return [
        number(row["memory_by_process_mb"].get("speech"), 0),
        number(row["peak_memory_mb"], 0),
    ]


def _errors(report: Mapping[str, Any]) -> Sequence[str]:
    """Return the first error of each row that has one."""
    rows = [row for part in ("lengths", "concurrency", "streams", "models") for row in report[part]]
    messages = [row["error_messages"][0] for row in rows if row["errors"]]
    return [f"**{item if isinstance(item, str) else item['message']}**" for item in messages]
