"""The reference at /docs: what a gateway sends, and what a browser makes of it."""

import re
import subprocess
import urllib.request
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from programs import required

from conch.gateway import GatewayConfig, GatewayService, openapi
from conch.wire.options import RecognitionOptions

PAGE = Path(openapi.__file__).parent / "page"
FILES = ("docs.html", "docs.css", "docs.js", "docs_model.js")
MODEL_TEST = Path(__file__).parent / "page" / "docs_model.test.mjs"
BROWSER = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Return the address of a gateway without a server."""
    with GatewayService(GatewayConfig(servers=("grpc://127.0.0.1:1",), port=0)) as service:
        yield service.url


def test_the_model_under_node() -> None:
    command = [required("node"), "--test", "--test-reporter=tap", str(MODEL_TEST)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    assert "\n# fail 0\n" in done.stdout and "\n# tests 0\n" not in done.stdout


def test_the_page_comes_with_a_policy_and_its_files(url: str) -> None:
    with urllib.request.urlopen(f"{url}/docs", timeout=10) as answer:
        html = answer.read().decode()
        policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy
    for name in re.findall(r'(?:href|src)="(/page/docs[^"]*)"', html):
        with urllib.request.urlopen(url + name, timeout=10) as answer:
            assert answer.read() == (PAGE / Path(name).name).read_bytes()


def test_nothing_is_loaded_from_elsewhere_and_nothing_is_read_as_markup() -> None:
    for name in FILES:
        text = (PAGE / name).read_text(encoding="utf-8")
        assert not re.search(r"https?://", text), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
        # The policy forbids scripts and styles inside the HTML.
        assert not re.search(r"<script>|<style| style=| on\w+=", text), name


def test_a_browser_shows_every_address_and_option(url: str, tmp_path: Path) -> None:
    command = [
        *(required("chromium"), *BROWSER, f"--user-data-dir={tmp_path}"),
        *("--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom", f"{url}/docs"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    shown = unescape(re.sub(r"<[^>]+>", " ", done.stdout))
    document = openapi.make_document()
    for path in document["paths"]:
        assert f" {path} " in shown
    for name in (*RecognitionOptions.__dataclass_fields__, *document["components"]["schemas"]):
        assert f" {name} " in shown
    assert f"curl -F file=@talk.mp3 {url}/v1/audio/transcriptions" in shown
    assert "undefined" not in shown and "[object" not in shown
    assert "Content Security Policy" not in done.stderr, done.stderr
    assert "Uncaught" not in done.stderr, done.stderr
