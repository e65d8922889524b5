"""Tables of documents that are computed."""

import pytest

from lab.capacity import tables


@pytest.mark.parametrize("document", tables.DOCUMENTS, ids=lambda path: path.stem)
def test_the_tables_are_those_of_the_code(document):
    text = document.read_text()
    assert all(f"<!-- {name} -->" in text for name in tables.DOCUMENTS[document])
    assert tables.with_tables(text) == text, "run python -m lab.capacity.tables"


def test_every_table_stands_in_a_document():
    assert {name for names in tables.DOCUMENTS.values() for name in names} == {*tables.TABLES}


def test_what_is_called_measured_stands_in_the_benchmarks():
    text = (tables.DOCS / "notes" / "benchmarks.md").read_text()
    every_pass, streaming, _ = tables.machines()
    assert f"| `two_pass`, {every_pass.streams} streams |" in text
    assert f"| {streaming.streams} | yes |" in text


@pytest.mark.parametrize(
    ("streams", "of_one", "servers"), [(8, 8, 2), (9, 8, 3), (1000, 66, 17), (66, 66.9, 2)]
)
def test_one_server_more_than_the_streams_need(streams, of_one, servers):
    assert tables.servers_for(streams, of_one) == servers
