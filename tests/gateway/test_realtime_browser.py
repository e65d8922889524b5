"""The page of docs/guide/realtime.md in a real browser, with a recording as the microphone."""

import json
import re
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from browsers import RATE, chromium
from playwright.sync_api import Route
from recordings import Recording, wer

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "realtime.md"

pytestmark = pytest.mark.server


def test_the_page_of_the_guide(gateway_url: str, recordings: list[Recording]) -> None:
    spoken, silence = recordings[4], np.zeros(RATE, np.float32)
    heard = np.concatenate([silence, spoken.waveform(), silence, silence])
    (program,) = re.findall(r"^```javascript\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)
    program = program.replace("wss://speech.example.org", gateway_url.replace("http", "ws"))

    def give_secret(route: Route) -> None:
        """Answer as the page's own server does."""
        made = urllib.request.Request(f"{gateway_url}/v1/realtime/client_secrets", data=b"{}")
        with urllib.request.urlopen(made) as answer:
            route.fulfill(json={"value": json.load(answer)["value"]})

    with chromium(heard) as browser:
        # The gateway's own page loads nothing from anywhere, not even from itself as a blob.
        page = browser.new_context(bypass_csp=True).new_page()
        page.route("**/secret", give_secret)
        page.goto(gateway_url)
        page.evaluate("document.body.replaceChildren()")
        page.evaluate(f"(async () => {{ {program} }})()")
        page.wait_for_function("document.body.textContent.trim().length > 20", timeout=60_000)
        text = page.evaluate("document.body.textContent")
    assert wer(spoken.text, text) < 0.2
