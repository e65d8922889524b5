"""What the summary of a run tells of missing programs."""

import pytest
from programs import fold


def skipped(reason: str) -> pytest.TestReport:
    place = ("tests/gateway/test_curl.py", 12, f"Skipped: {reason}")
    return pytest.TestReport("test", ("", 0, ""), {}, "skipped", place, "setup")


def test_missing_programs_have_one_reason_and_other_skips_their_own():
    reasons = (
        "chromium is missing: apt-get install chromium, then scripts/install test",
        "npm is missing: apt-get install npm, then scripts/install test",
        "openai-older is missing: scripts/install test",
        "there is a GPU",
    )
    *missing, other = reports = [skipped(reason) for reason in reasons]
    fold(reports)
    assert {report.longrepr for report in missing} == {
        (
            "tests/support/programs.py",
            None,
            "Skipped: missing: chromium, npm, openai-older: apt-get install chromium npm, "
            "then scripts/install test",
        )
    }
    assert other.longrepr == ("tests/gateway/test_curl.py", 12, "Skipped: there is a GPU")
