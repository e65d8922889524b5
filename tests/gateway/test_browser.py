"""A real browser: the page, with a recording in place of the microphone, and OpenAI's package."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from axe import serious_problems
from browsers import RATE, chromium, faults_of, has_focus, saved
from gateways import Gateway
from playwright.sync_api import Browser, Page, Route
from programs import required
from recordings import Recording, wer

HERE = Path(__file__).parent
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 360, "height": 740}

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def spoken(recordings: list[Recording]) -> tuple[np.ndarray, str]:
    """Return what the microphone hears, two utterances with silence around them, and its text."""
    first, second = recordings[1], recordings[4]
    silence = np.zeros(RATE, np.float32)
    parts = [silence, first.waveform(), silence, silence, second.waveform(), silence]
    return np.concatenate(parts), f"{first.text} {second.text}"


@pytest.fixture(scope="module")
def browser(spoken: tuple[np.ndarray, str]) -> Iterator[Browser]:
    with chromium(spoken[0]) as browser:
        yield browser


@contextmanager
def opened(browser: Browser, gateway: Gateway, **settings: Any) -> Iterator[Page]:
    """Yield the page of a gateway; in the end, fail if anything went wrong in it."""
    # The browser knows nothing of the test's authority.
    settings = {"viewport": DESKTOP, "ignore_https_errors": True, **settings}
    with browser.new_context(**settings) as context:
        context.grant_permissions(["microphone"], origin=gateway.url)
        page, faults = context.new_page(), faults_of(context)
        page.goto(gateway.url)
        yield page
        assert faults == []


def drop(page: Page, path: Path) -> None:
    given = [path.name, base64.b64encode(path.read_bytes()).decode()]
    transfer = page.evaluate_handle(
        """([name, base64]) => {
            const transfer = new DataTransfer();
            const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
            transfer.items.add(new File([bytes], name));
            return transfer;
        }""",
        given,
    )
    for kind in ("dragenter", "dragover", "drop"):
        page.dispatch_event("main", kind, {"dataTransfer": transfer})


def text_of(page: Page, selector: str) -> str:
    """Return the text of all elements that are shown, with a space between them."""
    shown = [item for item in page.locator(selector).all() if item.is_visible()]
    return " ".join(" ".join(item.inner_text() for item in shown).split())


def wait_for_status(page: Page, *beginnings: str) -> None:
    """Wait until a status line of the page begins with one of some words."""
    page.wait_for_function(
        """(beginnings) => [...document.querySelectorAll("[role=status]")].some((status) =>
            beginnings.some((beginning) => status.textContent.startsWith(beginning)))""",
        arg=list(beginnings),
    )


def test_a_file_is_dropped(browser, gateway, talk, tmp_path):
    with opened(browser, gateway) as page:
        drop(page, talk.path)
        wait_for_status(page, "Done")
        words = page.locator(".transcript .word")
        text = " ".join(words.all_inner_texts())
        assert wer(talk.text, text) < 0.2
        # A word plays the file from where it was spoken.
        last = words.last
        start = float(last.get_attribute("data-start"))
        assert start > 5
        last.click()
        page.wait_for_function(
            "(start) => document.querySelector('audio').currentTime >= start - 0.1", arg=start
        )
        last.press("Home")
        assert has_focus(words.first)
        for form in ("txt", "srt", "vtt", "json"):
            content = saved(page, form)
            said = json.loads(content)["text"] if form == "json" else content
            assert text in " ".join(said.split()) or form in ("srt", "vtt")
            assert text.split()[-1] in said
        assert "moonshine_decoder" in page.locator(".answer table").first.inner_text()
        page.get_by_role("button", name="Other candidates").click()
        page.locator(".candidates td.candidate").nth(1).wait_for()
        assert serious_problems(page) == []
        page.screenshot(path=tmp_path / "file-1280.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_telephone_in_any_light(browser, gateway, speech, tmp_path, scheme):
    with opened(browser, gateway, viewport=PHONE, color_scheme=scheme) as page:
        page.locator("#choices > summary").click()
        page.get_by_text("All other options").first.click()
        page.locator("#file").set_input_files(speech.path)
        wait_for_status(page, "Done")
        assert wer(speech.text, text_of(page, ".transcript .word")) < 0.2
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert serious_problems(page) == []
        page.screenshot(path=tmp_path / f"{scheme}-360.png", full_page=True)


def test_two_choices_side_by_side(browser, gateway, speech):
    with opened(browser, gateway) as page:
        page.locator("#choices > summary").click()
        page.get_by_label("Compare two choices").check()
        page.locator("#form-b .card-title", has_text="CTC").first.click()
        page.locator("#file").set_input_files(speech.path)
        wait_for_status(page, "Done")
        answers = page.locator(".answer")
        assert answers.count() == 2
        # What was called, and how often, is told of each.
        tables = [answer.locator("table").first.inner_text() for answer in answers.all()]
        assert ["moonshine_encoder" in table for table in tables] == [True, False]
        assert ["ctc_encoder" in table for table in tables] == [False, True]
        assert serious_problems(page) == []


WATCH = """() => {
    const parts = ["firm", "tentative", "newest"];
    window.seen = [];
    new MutationObserver(() => {
        const items = [...document.querySelectorAll(".utterances li")];
        window.seen.push(items.map((item) => [
            item.classList.contains("is-open"),
            ...parts.map((part) => item.querySelector(`.${part}`).textContent),
        ]));
    }).observe(document.querySelector(".utterances"), {
        subtree: true, childList: true, characterData: true, attributes: true,
    });
}"""


def test_words_appear_while_somebody_speaks(browser, gateway, spoken, tmp_path):
    with opened(browser, gateway) as page:
        page.evaluate(WATCH)
        page.get_by_role("button", name="Speak").click()
        ended = page.locator(".utterances li:not(.is-open):not([hidden])")
        ended.nth(1).wait_for(timeout=60_000)
        assert serious_problems(page) == []
        page.screenshot(path=tmp_path / "live-1280.png", full_page=True)
        page.get_by_role("button", name="Stop").click()
        wait_for_status(page, "Ended")
        assert wer(spoken[1], text_of(page, ".utterances .firm")) < 0.3
        # Both passes are told.
        called = page.locator("#live-panel table").first.inner_text()
        assert all(name in called for name in ("ctc_streaming_decoder", "moonshine_decoder"))
        seen = page.evaluate("window.seen")
    # How many passes an utterance gets while it is open is a matter of speed: one will do.
    while_open = [[items[at][1:] for items in seen if items[at:] and items[at][0]] for at in (0, 1)]
    for of_one in while_open:
        firm = [parts[0] for parts in of_one]
        assert all(later.startswith(earlier) for earlier, later in pairwise(firm)), (
            "firm text stays"
        )
    for part in range(3):
        assert any(parts[part] for of_one in while_open for parts in of_one)


HEAR = """() => {
    window.sounds = [];
    const { start } = AudioBufferSourceNode.prototype;
    AudioBufferSourceNode.prototype.start = function (at) {
        window.sounds.push([at, this.buffer.duration]);
        start.call(this, at);
    };
    window.marked = new Set();
    new MutationObserver(() => {
        const words = [...document.querySelectorAll("#say-panel .word")];
        words.forEach((word, at) => word.classList.contains("is-playing") && marked.add(at));
    }).observe(document.querySelector("#say-panel"), { subtree: true, attributes: true });
}"""


def test_a_text_is_heard_while_it_is_made_and_its_words_are_marked(browser, gateway, tmp_path):
    text = "Hello there. This is read aloud, and every word is marked."
    with opened(browser, gateway) as page:
        page.evaluate(HEAR)
        panel = page.locator("#say-panel")
        panel.get_by_label("Read a text aloud").fill(text)
        panel.get_by_role("button", name="Read aloud").click()
        wait_for_status(page, "The first sound came after")
        wait_for_status(page, "Done")
        assert text_of(page, "#say-panel .word") == text
        sounds = page.evaluate("window.sounds")
        assert len(sounds) > 2
        for (at, seconds), (later, _) in pairwise(sounds):
            assert later >= at + seconds - 1e-6, "no sound overlaps the one before"
        assert page.evaluate("window.marked.size") > len(text.split()) / 2
        assert "vocoder" in panel.locator("table").inner_text()
        with page.expect_download() as downloading:
            panel.get_by_role("button", name="Save as mp3").click()
        assert soundfile.info(downloading.value.path()).duration > 3
        assert serious_problems(page) == []
        page.screenshot(path=tmp_path / "say-1280.png", full_page=True)
        # Another press ends it.
        panel.get_by_label("Speed").fill("2")
        panel.get_by_role("button", name="Read aloud").click()
        wait_for_status(page, "The first sound came after")
        panel.get_by_role("button", name="Be quiet").click()
        wait_for_status(page, "Stopped")
        # A press before the voices are known.
        voices: list[Route] = []
        page.route("**/v1/audio/voices", lambda route: voices.append(route))
        page.reload()
        panel.get_by_label("Read a text aloud").fill(text)
        panel.get_by_role("button", name="Read aloud").click()
        wait_for_status(page, "The first sound came after")
        voices[0].continue_()


def test_a_locked_page_asks_for_the_key(browser, locked, speech):
    with browser.new_context(ignore_https_errors=True) as context:
        context.grant_permissions(["microphone"], origin=locked.url)
        page = context.new_page()
        page.goto(locked.url)
        page.get_by_label("Key of this server").fill(locked.key)
        page.get_by_role("button", name="Use it").click()
        page.get_by_label("Key of this server").wait_for(state="hidden")
        # From here on nothing may be refused.
        faults = faults_of(context)
        page.locator("#file").set_input_files(speech.path)
        wait_for_status(page, "Done")
        assert wer(speech.text, text_of(page, ".transcript .word")) < 0.2
        page.get_by_role("button", name="Speak").click()
        wait_for_status(page, "Listening")
        page.get_by_role("button", name="Stop").click()
        wait_for_status(page, "Ended")
        assert faults == []


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
    with browser.new_context(ignore_https_errors=True) as context:
        page = context.new_page()
        page.goto(f"{elsewhere}/openai/package.json")
        result = page.evaluate((HERE / "browser_sdk.js").read_text(), given)
    assert wer(speech.text, result["text"]) < 0.2
    assert result["id"], "a header that the page may read"
    *deltas, done = result["events"]
    assert "".join(event["delta"] for event in deltas) == done["text"] == result["text"]
    assert result["refused"] == [400, "nbest"]
    assert result["locked"] == 401
    assert wer(speech.text, result["spoken"]["text"]) < 0.2
    assert result["spoken"]["protocol"] == "realtime"
