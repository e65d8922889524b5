"""The table of a soak, and what counts as lost."""

from conch.bench.header import header
from lab.chaos.honest import LIVE, RECORDING
from lab.chaos.soak import Soak, SoakReport, SoakRow, markdown


def row(kind: str, lost: int) -> SoakRow:
    return SoakRow(kind=kind, asked=100, right=98 - lost, busy=1, again=1, lost=lost)


def report(*rows: SoakRow) -> SoakReport:
    return SoakReport(
        header=header("chaos-soak", Soak(seconds=600)),
        rows=rows,
        killed=["vad", "speech"],
        restarts=0,
        first_losses=["live: SessionError"],
    )


def test_only_stateless_requests_count_as_lost():
    assert report(row(RECORDING, 0), row(LIVE, 3)).lost == 0
    assert report(row(RECORDING, 2), row(LIVE, 3)).lost == 2


def test_a_soak_shows_what_it_asked_and_what_it_killed():
    text = markdown(report(row(RECORDING, 0), row(LIVE, 3)))
    assert "| recording | 100 | 98 | 1 | 1 | 0 |" in text
    assert "Killed, one process every 120 s: vad, speech." in text
    assert "10 minutes" in text
