"""A real browser, and what its microphone hears."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray
from playwright.sync_api import Browser, BrowserContext, Locator, Page, sync_playwright
from programs import required

RATE, MICROPHONE_RATE = 16_000, 48_000


@contextmanager
def chromium(heard: NDArray[np.float32] | None = None) -> Iterator[Browser]:
    """Yield a browser whose microphone beeps, or hears a waveform of 16 kHz once."""
    arguments = [
        *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
        *("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"),
        "--autoplay-policy=no-user-gesture-required",
    ]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        if heard is not None:
            path = Path(folder) / "heard.wav"
            soundfile.write(path, soxr.resample(heard, RATE, MICROPHONE_RATE), MICROPHONE_RATE)
            arguments.append(f"--use-file-for-fake-audio-capture={path}%noloop")
        browser = playwright.chromium.launch(executable_path=required("chromium"), args=arguments)
        yield browser
        browser.close()


def faults_of(context: BrowserContext) -> list[str]:
    """Return a list that gets what a context's pages log as errors, or fail to handle or load."""
    faults: list[str] = []
    context.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    context.on("weberror", lambda error: faults.append(str(error.error)))
    return faults


def has_focus(locator: Locator) -> bool:
    return bool(locator.evaluate("(element) => element === document.activeElement"))


def saved(panel: Page | Locator, ending: str) -> str:
    """Return the file that a panel's button with this name saves."""
    page = panel if isinstance(panel, Page) else panel.page
    with page.expect_download() as downloading:
        panel.get_by_role("button", name=ending, exact=True).click()
    return downloading.value.path().read_text()
