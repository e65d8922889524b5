"""The table of a soak, and what counts as lost."""

from collections import Counter

from conch.bench.header import header
from lab.chaos.honest import LIVE, RECORDING
from lab.chaos.soak import Soak, SoakReport, markdown


def report(**lost: int) -> SoakReport:
    kinds = {"recording": RECORDING, "live": LIVE}
    others = {"requests": 100, "busy": 1, "again": 1}
    return SoakReport(
        header=header("chaos-soak", Soak(seconds=600)).with_triton("2.51.0"),
        counts={
            kinds[kind]: Counter({**others, "right": 98 - number, "lost": number})
            for kind, number in lost.items()
        },
        killed=["vad", "speech"],
        restarts=0,
        first_losses=["live: SessionError"],
    )


def test_only_stateless_requests_count_as_lost():
    assert report(recording=0, live=3).lost == 0
    assert report(recording=2, live=3).lost == 2


def test_a_soak_shows_what_it_asked_and_what_it_killed():
    text = markdown(report(recording=0, live=3))
    assert "| recording | 100 | 98 | 1 | 1 | 0 |" in text
    assert "Killed, one process every 120 s: vad, speech." in text
    assert "10 minutes" in text
