"""The figures of the first segment."""

import pytest
from reports import header

from lab.first import FirstReport, Row, markdown

ROW = Row(length_s=602.4, alone_s=0.5, first_s=0.6, whole_s=12.3)


def test_the_ratio_is_that_of_the_same_segment():
    assert ROW.ratio == pytest.approx(1.2)


def test_a_row_of_the_table_has_the_times():
    text = markdown(FirstReport(header=header(), rows=[ROW]))
    assert "| 602 | 0.50 | 0.60 | 1.20 | 12.3 |" in text
    assert text.startswith("1 recordings, 602 s of audio; A CPU, 2 cores")
