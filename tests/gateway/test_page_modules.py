"""The page's modules that need no browser, by node's test runner."""

from pathlib import Path

import pytest
from programs import required
from subprocesses import output_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src" / "conch" / "gateway" / "page"
TESTS = sorted((Path(__file__).parent / "page").glob("*.test.mjs"))


@pytest.fixture(scope="module")
def node() -> str:
    return required("node")


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name.partition(".")[0])
def test_modules_under_node(node: str, path: Path) -> None:
    said = output_of(node, "--test", "--test-reporter=tap", path)
    # A file that node takes for empty passes too.
    assert "\n# fail 0\n" in said and "\n# tests 0\n" not in said


def test_the_page_loads_nothing_from_elsewhere_and_writes_no_markup() -> None:
    files = [path for path in PAGE.iterdir() if path.suffix in (".html", ".css", ".js", ".svg")]
    assert {"index.html", "style.css", "favicon.svg", "main.js"} <= {path.name for path in files}
    for path in files:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text and "https://" not in text, path.name
        for markup in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert markup not in text, path.name
