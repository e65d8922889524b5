"""The page's modules that need no browser, by node's test runner."""

import subprocess
from pathlib import Path

import pytest
from programs import required

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src" / "conch" / "gateway" / "page"
TESTS = sorted((Path(__file__).parent / "page").glob("*.test.mjs"))


@pytest.fixture(scope="module")
def node() -> str:
    return required("node")


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name.partition(".")[0])
def test_modules_under_node(node: str, path: Path) -> None:
    command = [node, "--test", "--test-reporter=tap", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    # A file that node takes for empty passes too.
    assert "\n# fail 0\n" in done.stdout and "\n# tests 0\n" not in done.stdout


def test_the_page_loads_nothing_from_elsewhere_and_writes_no_markup() -> None:
    files = [path for path in PAGE.iterdir() if path.suffix in (".html", ".css", ".js", ".svg")]
    assert {"index.html", "style.css", "favicon.svg", "main.js"} <= {path.name for path in files}
    for path in files:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text and "https://" not in text, path.name
        for markup in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert markup not in text, path.name
