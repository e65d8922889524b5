"""The figures of bulk runs, from times that are given."""

import pytest

from lab.bulk import Length


def test_what_a_file_costs_more_is_without_the_start_of_ray() -> None:
    item = Length(seconds=10, files=100, transcribe_s=50.0, bulk_s=62.0)
    assert item.over(10.0) == pytest.approx(0.04)


def test_a_run_that_the_start_of_ray_hides_has_no_speed() -> None:
    item = Length(seconds=10, files=100, transcribe_s=50.0, bulk_s=60.0)
    assert item.rtfx(10.0) == pytest.approx(20.0)
    assert item.rtfx(60.0) is None
