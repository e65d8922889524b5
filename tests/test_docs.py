"""The documents: their generated tables are those of the code, and their links are checked."""

import re
from pathlib import Path

import pytest
from project_scripts import script

from conch.families import traits
from conch.wire.entry_points import ENTRY_POINTS, FITTING, SYNTHESIS

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["limits_table", "tables"])
def test_a_generated_table_is_that_of_the_code(name: str) -> None:
    tables = script(name)
    for document in tables.DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        assert tables.MARKED.search(text), "the markers are gone"
        assert tables.with_tables(text) == text, f"run scripts/{name}.py"


def test_every_limit_has_its_test() -> None:
    limits = script("limits_table")
    assert len(limits.LIMIT.findall(limits.BOUNDS)) > 30
    tests = limits.all_tests()
    assert len(tests) > 80
    for test in tests:
        file, _, function = test.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"\ndef {function}(" in text or f"\nasync def {function}(" in text, test


def test_every_parameter_of_every_model_has_its_line_and_a_meaning() -> None:
    listed = script("tables").parameters_list()
    lines = re.findall(r"^- `(\w+)` \(\S+: (.*?)\): \S.*$", listed, re.M)
    assert len(lines) == len(listed.splitlines())
    documented = {
        (model, name) for name, models in lines for model in re.findall(r"`(\w+)`", models)
    }
    configs = sorted(ROOT.glob("*_models/*/config.pbtxt"))
    there = {
        (path.parent.name, name)
        for path in configs
        for name in re.findall(r'^parameters \{ key: "(\w+)"', path.read_text(), re.M)
    }
    assert documented == there
    served = {*ENTRY_POINTS, *SYNTHESIS, FITTING, *traits()}
    assert {path.parent.name for path in configs} == served, "a model without config.pbtxt"


def test_a_parameter_takes_the_comment_right_above_it(tmp_path: Path) -> None:
    config = tmp_path / "config.pbtxt"
    config.write_text(
        "# Of the file.\n\n"
        "# What it is,\n# in two lines.\n"
        'parameters { key: "one" value { string_value: "1" } }\n'
        'parameters { key: "other" value { string_value: "" } }\n'
    )
    one, other = script("tables").parameters(config)
    assert (one.name, one.value, one.meaning) == ("one", "1", "What it is, in two lines.")
    assert (other.value, other.meaning) == ("", "")


def test_no_link_of_a_document_is_broken() -> None:
    links = script("check_links")
    documents = links.documents()
    assert ROOT / "README.md" in documents and len(documents) > 20
    assert [wrong for path in documents for wrong in links.broken_links(path)] == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# The graph: `decoder=wfst`\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#the-graph-decoderwfst) [b](other.md#gone) [c](gone.md) [d](https://x.org)\n"
        "```\n[e](in-code.md)\n```\n[f](#own)\n\n## Own\n"
    )
    assert list(script("check_links").broken_links(page)) == [
        "other.md#gone: no such heading",
        "gone.md: no such file",
    ]


def test_what_a_page_loads_from_the_network_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        '<script src="https://a.org/x.js"></script><script src="own.js"></script>'
        '<link rel="stylesheet" href="https://b.org/x.css"><a href="https://c.org">c</a>'
    )
    found = script("check_links").loaded_from_elsewhere(page)
    assert found == ["https://a.org/x.js", "https://b.org/x.css"]


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130
