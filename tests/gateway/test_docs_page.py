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
BROWSER = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Return the address of a gateway without a server."""
    with GatewayService(GatewayConfig(servers=("grpc://127.0.0.1:1",), port=0)) as service:
        yield service.url


def test_the_page_comes_with_a_policy_and_its_files(url: str) -> None:
    with urllib.request.urlopen(f"{url}/docs", timeout=10) as answer:
        html = answer.read().decode()
        policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy
    for name in re.findall(r'(?:href|src)="(/page/docs[^"]*)"', html):
        with urllib.request.urlopen(url + name, timeout=10) as answer:
            assert answer.read() == (PAGE / Path(name).name).read_bytes()


def test_the_html_has_no_scripts_and_styles_of_its_own() -> None:
    text = (PAGE / "docs.html").read_text(encoding="utf-8")
    assert not re.search(r"<script>|<style| style=| on\w+=", text)


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
