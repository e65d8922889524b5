"""Writes Grafana's dashboard from the tables of metrics in the guide.

    python scripts/dashboard.py

A question of docs/guide/operating.md is a panel with its PromQL. Each metric there, and in
docs/guide/gateway.md, has a panel by its type and labels, described as in the guide.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OPERATING = ROOT / "docs" / "guide" / "operating.md"
GATEWAY = ROOT / "docs" / "guide" / "gateway.md"
DASHBOARD = ROOT / "deploy" / "grafana" / "dashboards" / "conch.json"

WINDOW = "$__rate_interval"
"""Grafana's variable: at least four scrapes, so that a rate has samples."""
QUANTILES = (0.5, 0.95)
COLUMNS, WIDTH, HEIGHT = 24, 8, 7
"""Of Grafana's grid: three panels in a line."""
SOURCE = {"type": "prometheus", "uid": "${source}"}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    type: str
    """`counter`, `gauge` or `histogram`."""
    labels: tuple[str, ...]
    """Those that its panel shows apart; Prometheus' own are not among them."""
    meaning: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel: a title, and a query with a legend for each set of lines."""

    title: str
    description: str
    queries: tuple[tuple[str, str], ...]
    unit: str


def metrics(document: str, *common: str) -> list[Metric]:
    """Return the rows of the tables of metrics in a page; each gauge has `common` labels too."""
    row = re.compile(r"^\| `(conch_\w+)` \| (\w+) \|([^|]*)\| (.+) \|$", re.M)
    return [
        Metric(
            name,
            metric_type,
            (*(common if metric_type == "gauge" else ()), *re.findall(r"`(\w+)`", labels)),
            meaning,
        )
        for name, metric_type, labels, meaning in row.findall(document)
    ]


def questions(document: str) -> list[tuple[str, str]]:
    """Return question and PromQL of the rows of the table `question | PromQL` in a page."""
    table = re.search(r"^\| question \| PromQL \|\n\| --- \| --- \|\n((?:\|.*\n)+)", document, re.M)
    if table is None:
        raise ValueError("no table of questions and PromQL")
    return re.findall(r"^\| (.+?) \| `([^`]+)`", table[1], re.M)


def panel_of(metric: Metric) -> Panel:
    """Return the panel of a metric: rates of a counter, values of a gauge, quantiles."""
    legend = " ".join(f"{{{{{label}}}}}" for label in metric.labels)
    seconds = "_seconds" in metric.name
    title = metric.name.removeprefix("conch_").removesuffix("_total").replace("_", " ")
    match metric.type:
        case "counter":
            query = f"sum{_by(metric.labels)} (rate({metric.name}[{WINDOW}]))"
            # Seconds a second have no unit: they are how many do it at once.
            return Panel(
                f"{title} a second",
                metric.meaning,
                ((query, legend or "all"),),
                "short" if seconds else "cps",
            )
        case "gauge":
            query = f"sum{_by(('instance', *metric.labels))} ({metric.name})"
            shown = " ".join(filter(None, ("{{instance}}", legend)))
            return Panel(title, metric.meaning, ((query, shown),), "s" if seconds else "short")
        case "histogram":
            rates = f"sum{_by(('le', *metric.labels))} (rate({metric.name}_bucket[{WINDOW}]))"
            queries = tuple(
                (f"histogram_quantile({q:g}, {rates})", f"{legend} p{100 * q:g}".strip())
                for q in QUANTILES
            )
            return Panel(title, metric.meaning, queries, "s")
    raise ValueError(f"{metric.name}: no panel for a {metric.type}")


def panel_for(question: str, query: str) -> Panel:
    """Return the panel of a question, which ends with its unit after a comma if it has one."""
    title, _, unit = question.rpartition(", ")
    if unit != "s":
        title, unit = question, "short"
    return Panel(title, "", ((query, "__auto"),), unit)


def dashboard(operating: str, gateway: str) -> Json:
    """Return the dashboard for the texts of both pages, as Grafana imports it."""
    rows = (
        ("Questions", [panel_for(*item) for item in questions(operating)]),
        ("Recordings and live streams", map(panel_of, metrics(operating, "model"))),
        ("Gateway", map(panel_of, metrics(gateway))),
    )
    return {
        "uid": "conch",
        "title": "Conch",
        "description": "Made by scripts/dashboard.py from the tables of metrics in the guide.",
        "tags": ["conch"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"}
            ]
        },
        "panels": list(_laid_out(rows)),
    }


def queries_of(shown: Json) -> list[str]:
    return [target["expr"] for panel in shown["panels"] for target in panel.get("targets", ())]


def named(query: str) -> set[str]:
    """Return the metrics of Conch that a query names; of a histogram its own name."""
    names = re.findall(r"\bconch_\w+", query)
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in names}


def as_text(shown: Json) -> str:
    return json.dumps(shown, indent=2, ensure_ascii=False) + "\n"


def made() -> str:
    """Return the file as the guide has it now."""
    return as_text(dashboard(OPERATING.read_text("utf-8"), GATEWAY.read_text("utf-8")))


def _by(labels: Iterable[str]) -> str:
    named = ", ".join(labels)
    return f" by ({named})" if named else ""


def _laid_out(rows: Iterable[tuple[str, Iterable[Panel]]]) -> Iterator[Json]:
    top = number = 0
    for title, panels in rows:
        number += 1
        position = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": position}
        top += 1
        left = 0
        for panel in panels:
            number += 1
            position = {"x": left, "y": top, "w": WIDTH, "h": HEIGHT}
            yield {
                "id": number,
                "type": "timeseries",
                "title": panel.title,
                "description": panel.description,
                "datasource": SOURCE,
                "gridPos": position,
                "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
                "targets": [
                    {"refId": letter, "datasource": SOURCE, "expr": query, "legendFormat": legend}
                    for letter, (query, legend) in zip("ABCDE", panel.queries, strict=False)
                ],
            }
            left = (left + WIDTH) % COLUMNS
            top += HEIGHT if left == 0 else 0
        top += HEIGHT if left else 0


if __name__ == "__main__":
    DASHBOARD.write_text(made(), encoding="utf-8")
