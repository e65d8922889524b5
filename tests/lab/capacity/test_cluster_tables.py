"""docs/guide/cluster.md: its table and the arithmetic."""

import pytest

from lab.capacity import cluster_tables


def test_the_table_is_that_of_the_code():
    text = cluster_tables.DOCUMENT.read_text()
    assert cluster_tables.MARKED.search(text), "the markers are gone"
    assert cluster_tables.with_table(text) == text, "run python -m lab.capacity.cluster_tables"


def test_what_is_called_measured_stands_in_the_benchmarks():
    text = (cluster_tables.DOCUMENT.parents[1] / "notes" / "benchmarks.md").read_text()
    every_pass, streaming, _ = cluster_tables.machines()
    assert f"| `two_pass`, {every_pass.streams} streams |" in text
    assert f"| {streaming.streams} | yes |" in text


@pytest.mark.parametrize(
    ("streams", "of_one", "servers"), [(8, 8, 2), (9, 8, 3), (1000, 66, 17), (66, 66.9, 2)]
)
def test_one_server_more_than_the_streams_need(streams, of_one, servers):
    assert cluster_tables.servers_for(streams, of_one) == servers
