"""A real browser: OpenAI's package in a page of another origin."""

import base64
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soxr
from playwright.sync_api import Browser, sync_playwright
from programs import required
from recordings import wer

HERE = Path(__file__).parent

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=required("chromium"), args=arguments)
        yield browser
        browser.close()


def test_openai_in_a_page_of_another_origin(browser, elsewhere, locked, speech):
    required("npm")
    resampled = soxr.resample(speech.waveform(), 16_000, 24_000)
    pcm = (np.clip(resampled, -1, 1) * 32767).astype("<i2").tobytes()
    given = {
        "url": locked.url,
        "key": locked.key,
        "audio": base64.b64encode(speech.path.read_bytes()).decode(),
        "pcm": base64.b64encode(pcm).decode(),
    }
    # The browser knows nothing of the test's authority.
    with browser.new_context(ignore_https_errors=True) as context:
        page = context.new_page()
        page.goto(f"{elsewhere}/openai/package.json")
        found = page.evaluate((HERE / "browser_sdk.js").read_text(), given)
    assert wer(speech.text, found["text"]) < 0.2
    assert found["id"], "a header that the page may read"
    *deltas, done = found["events"]
    assert "".join(event["delta"] for event in deltas) == done["text"] == found["text"]
    assert found["refused"] == [400, "nbest"]
    assert found["locked"] == 401
    assert wer(speech.text, found["spoken"]["text"]) < 0.2
    assert found["spoken"]["protocol"] == "realtime"
