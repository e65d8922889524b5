"""A campaign as Markdown, and its place in docs/notes/reliability.md."""

import re
from collections import defaultdict
from pathlib import Path
from statistics import median

from conch.bench.header import machine_line
from conch.scoring.error_rates import number, table
from lab.chaos.answers import OUTCOMES
from lab.chaos.campaign import ChaosReport
from lab.chaos.strikes import Strike
from lab.reports import page, table_of

MARKED = re.compile(r"(<!-- chaos -->\n).*?(<!-- /chaos -->)", flags=re.S)
MOST_SHOWN = 40
"""Failures that are written out."""


def markdown(report: ChaosReport) -> str:
    return _document(report, _phases(report), _ways(report), _holdings(report))


def digest(report: ChaosReport) -> str:
    """Return what a reader of the notes needs of a campaign: a row for each fault."""
    return _document(report, _ways(report))


def _document(report: ChaosReport, *tables: str) -> str:
    return page(
        report.header,
        _verdict(report),
        *tables,
        _failures(report),
        _left_out(report),
        f"{report.took_s / 60:.1f} minutes; {machine_line(report.header)}",
    )


def with_report(text: str, report: ChaosReport) -> str:
    """Return a document with the digest of a report between its markers."""
    if not MARKED.search(text):
        raise ValueError("the document has no place for the report: <!-- chaos --> is missing")
    return MARKED.sub(lambda marks: f"{marks[1]}\n{digest(report)}\n{marks[2]}", text)


def write_into(path: Path, report: ChaosReport) -> None:
    path.write_text(with_report(path.read_text(encoding="utf-8"), report), encoding="utf-8")


def _verdict(report: ChaosReport) -> str:
    sent = sum(row.sent for row in report.phases)
    faults = sum(row.faults for row in report.phases)
    honest = sum(row.honest for row in report.phases)
    wrong = sum(row.honest_wrong for row in report.phases)
    return (
        f"{sent} hostile requests: {faults} answers did not hold. "
        f"{honest} honest requests next to them: {wrong} wrong. "
        f"The server needed a restart {report.restarts} times."
    )


def _phases(report: ChaosReport) -> str:
    return table_of(
        report.phases,
        (
            ("through", lambda row: row.phase),
            ("sent", lambda row: row.sent),
            *((name, lambda row, name=name: row.outcomes.get(name, 0)) for name in OUTCOMES),
            ("did not hold", lambda row: row.faults),
            ("honest", lambda row: row.honest),
            ("busy", lambda row: row.honest_busy),
            ("wrong", lambda row: row.honest_wrong),
            ("median s", lambda row: number(row.honest_median_s, 2)),
            ("took s", lambda row: number(row.took_s, 0)),
        ),
    )


def _ways(report: ChaosReport) -> str:
    if not report.strikes:
        return ""
    by_way: dict[str, list[Strike]] = defaultdict(list)
    for item in report.strikes:
        by_way[item.how].append(item)
    rows = []
    for how, items in by_way.items():
        times = [item.without_service_s for item in items if item.without_service_s is not None]
        longest = max(items, key=lambda item: item.without_service_s or 0.0)
        lost, num_requests = sum(item.lost for item in items), sum(item.requests for item in items)
        rows.append(
            [
                how,
                str(len(items)),
                str(sum(not item.is_healed for item in items)),
                number(median(times)) if times else "-",
                f"{number(longest.without_service_s)} ({longest.victim})" if times else "-",
                f"{lost} of {num_requests}",
            ]
        )
    header = ["fault", "processes", "restarts", "s without service, median", "longest", "lost"]
    return table(header, rows)


def _holdings(report: ChaosReport) -> str:
    before, after = report.before, report.after
    if before is None or after is None:
        return ""
    counts = {
        "live streams": (before.streams, after.streams),
        "segments of shared memory": (before.segments, after.segments),
    }
    for what in ("processes", "descriptors", "threads"):
        counts[what] = (sum(getattr(before, what).values()), sum(getattr(after, what).values()))
    rows = [[name, *map(str, pair)] for name, pair in counts.items()]
    rows.append(
        ["seconds from SIGTERM to the end, three live streams open", "", number(report.stop_s)]
    )
    return table(["what the server holds", "before", "after"], rows)


def _failures(report: ChaosReport) -> str:
    if not report.failures and not report.faults:
        return "Everything held."
    lines = [f"- {item}" for item in report.failures]
    lines += [f"- {item.phase}, number {item.number}: {item.answer:.200}" for item in report.faults]
    more = (
        f"\n- {len(lines) - MOST_SHOWN} more are in the JSON report" if lines[MOST_SHOWN:] else ""
    )
    return "What did not hold:\n\n" + "\n".join(map(_plain, lines[:MOST_SHOWN])) + more


def _left_out(report: ChaosReport) -> str:
    if not report.left_out:
        return ""
    return "Not tried:\n\n" + "\n".join(f"- {item}" for item in report.left_out)


def _plain(line: str) -> str:
    """Return a line without what Markdown or a page would take for its own."""
    return line.replace("\n", " ").replace("<", "&lt;").replace("|", "&#124;").replace("`", "'")
