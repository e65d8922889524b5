"""The tables of a campaign, and their place in a document."""

from dataclasses import replace

import pytest

from conch.bench.header import header
from lab.chaos.campaign import ChaosCampaign, ChaosReport, PhaseRow
from lab.chaos.census import Census
from lab.chaos.fuzz import Fault
from lab.chaos.report import markdown, with_report
from lab.chaos.strikes import Strike

ROW = PhaseRow(
    phase="gRPC",
    sent=300,
    outcomes={"answered": 100, "refused": 199},
    faults=1,
    honest=9,
    honest_busy=0,
    honest_wrong=0,
    honest_median_s=0.31,
    took_s=4.2,
)


@pytest.fixture
def report() -> ChaosReport:
    census = Census({"vad": 2}, {"vad": 10}, {"vad": 8}, segments=15)
    return ChaosReport(
        header=header("chaos", ChaosCampaign()).with_triton("2.51.0"),
        phases=[ROW],
        faults=[Fault("gRPC", 7, "INTERNAL <module>", "GrpcCall(…)")],
        strikes=[
            Strike("vad", "killed", 1.25, 20, 0),
            Strike("vad", "frozen", None, 40, 12, "no answer"),
            Strike("speech", "killed", 2.0, 20, 3),
        ],
        before=census,
        after=census,
        stop_s=4.5,
        restarts=1,
        failures=["vad frozen: the server needed a restart"],
        left_out=["memory: no time was left"],
        took_s=600.0,
    )


def test_a_report_says_what_was_sent_and_what_did_not_hold(report):
    text = markdown(report)
    assert "300 hostile requests: 1 answers did not hold. 9 honest" in text
    assert "| gRPC | 300 | 100 | 199 | 0 | 0 | 1 | 9 | 0 | 0 | 0.31 | 4 |" in text
    assert "| killed | 2 | 0 | 1.6 | 2.0 (speech) | 3 of 40 |" in text
    assert "| frozen | 1 | 1 | - | - | 12 of 40 |" in text
    assert "| segments of shared memory | 15 | 15 |" in text
    assert "- gRPC, number 7: INTERNAL &lt;module>" in text
    assert "- memory: no time was left" in text
    assert "Everything held." in markdown(replace(report, failures=[], faults=[]))


def test_a_report_goes_between_its_markers(report):
    document = "before\n<!-- chaos -->\nstale\n<!-- /chaos -->\nafter\n"
    written = with_report(document, report)
    assert "stale" not in written and written.startswith("before\n<!-- chaos -->\n\n`")
    assert written.endswith("<!-- /chaos -->\nafter\n")
    assert with_report(written, report) == written
    assert "| killed | 2 | 0 | 1.6 | 2.0 (speech) | 3 of 40 |" in written
    assert "| frozen | 1 | 1 | - | - | 12 of 40 |" in written
    assert "300 hostile requests: 1 answers did not hold." in written
    with pytest.raises(ValueError, match="chaos"):
        with_report("nothing", report)
