"""The table of a soak, and what counts as lost."""

from conch.bench.header import header
from lab.chaos.honest import LIVE, RECORDING
from lab.chaos.soak import Soak, SoakReport, SoakRow, markdown, write_into


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


def test_a_soak_is_written_into_its_place(tmp_path):
    found = report(row(RECORDING, 0), row(LIVE, 3))
    assert "| recording | 100 | 98 | 1 | 1 | 0 |" in markdown(found)
    assert "Killed, one process every 120 s: vad, speech." in markdown(found)
    notes = tmp_path / "notes.md"
    notes.write_text("a\n<!-- soak -->\nstale\n<!-- /soak -->\nb\n")
    write_into(notes, found)
    written = notes.read_text()
    assert "stale" not in written and "10 minutes" in written
    assert written.startswith("a\n<!-- soak -->\n") and written.endswith("<!-- /soak -->\nb\n")
