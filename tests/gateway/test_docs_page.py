"""The reference at /docs: what a gateway sends, and what a browser makes of it."""

import re
from pathlib import Path

from axe import serious_problems
from browsers import chromium
from http_answers import asked

from conch.gateway import openapi
from conch.wire.options import RecognitionOptions

GATEWAY = Path(openapi.__file__).parent


def test_the_page_comes_with_a_policy_and_its_files(url: str) -> None:
    _, headers, html = asked("GET", f"{url}/docs")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy
    names = re.findall(r'(?:href|src)="/page/([^"]*)"', html)
    assert {"docs.js", "swagger-ui.css", "swagger-ui-bundle.js"} <= set(names)
    for name in names:
        folder = "viewer" if name.startswith("swagger") else "page"
        text = asked("GET", f"{url}/page/{name}").body
        assert text.encode() == (GATEWAY / folder / name).read_bytes()


def test_the_html_has_no_scripts_and_styles_of_its_own() -> None:
    text = (GATEWAY / "page" / "docs.html").read_text(encoding="utf-8")
    assert not re.search(r"<script>|<style| style=| on\w+=", text)


def test_the_viewer_comes_with_its_licences() -> None:
    names = {path.name for path in (GATEWAY / "viewer").iterdir()}
    assert {"LICENSE", "NOTICE", "swagger-ui-bundle.js.LICENSE.txt"} <= names


def test_a_browser_shows_every_address_and_option(url: str) -> None:
    document = openapi.make_document()
    problems: list[str] = []
    urls: list[str] = []
    with chromium() as browser:
        page = browser.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: urls.append(request.url))
        page.goto(f"{url}/docs")
        page.locator(".opblock").first.wait_for()
        assert serious_problems(page) == []
        shown = page.locator(".opblock-summary-path").all_inner_texts()
        operations = [path for path, methods in document["paths"].items() for _ in methods]
        assert [path.replace("\u200b", "") for path in shown] == operations
        page.locator(".opblock-summary-control").first.click()
        page.locator(".opblock-body").get_by_text("keywords[]").wait_for()
        form = page.locator(".opblock-body").inner_text()
        for name in RecognitionOptions.__dataclass_fields__:
            assert re.search(rf"\b{name}\b", form), name
        assert f"curl -F file=@talk.mp3 {url}/v1/audio/transcriptions" in form
        schemas = page.locator("section.models").inner_text()
        for name in document["components"]["schemas"]:
            assert name in schemas
        page.locator(".opblock-summary-control", has_text="/health/live").click()
        page.get_by_role("button", name="Try it out").last.click()
        page.get_by_role("button", name="Execute").click()
        page.locator(".live-responses-table", has_text='"status": "live"').wait_for()
    assert problems == []
    assert all(address.startswith((url, "data:")) for address in urls)
