"""The page's corrections of a transcript in a real browser. The tests answer for a server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe import serious_problems
from playwright.sync_api import Browser, Dialog, Locator, Page, Route, expect

PHONE_WIDTH = 390
SURE, DOUBTFUL = 0.95, 0.6


def segment(start: float, speaker: str, *words: tuple[str, float]) -> dict[str, Any]:
    timed = [
        {"text": text, "start": start + at, "end": start + at + 1, "confidence": confidence}
        for at, (text, confidence) in enumerate(words)
    ]
    text = " ".join(word for word, _ in words)
    times = {"start": start, "end": start + len(words)}
    return {"text": text, "speaker": speaker, "words": timed, **times}


SEGMENTS = [
    segment(0.0, "A", ("One", SURE), ("tow", DOUBTFUL), ("three.", SURE)),
    segment(3.2, "A", ("Fourr.", DOUBTFUL)),
    segment(9.0, "B", ("Five", SURE), ("sicks.", DOUBTFUL)),
]
TALK: dict[str, Any] = {
    "text": "One tow three. Fourr. Five sicks.",
    "duration": 11.0,
    "path": [],
    "stages": {"total": {"calls": 1, "ms": 10.0}},
    "warnings": [],
    "nbest": [{"text": "One tow three. Fourr. Five sicks."}],
    "segments": SEGMENTS,
    "speakers": [{"name": "A", "seconds": 4.0}, {"name": "B", "seconds": 2.0}],
}


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "talk.wav", tmp_path / "call.wav"]
    for path in paths:
        path.write_bytes(b"RIFF")
    return paths


@pytest.fixture
def page(browser: Browser, url: str, files: list[Path]) -> Iterator[Page]:
    """Yield a page that has transcribed the first file."""
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        answer(page, TALK)
        page.goto(url)
        page.locator("#form-a form").wait_for(state="attached")
        page.locator("#file").set_input_files(files[0])
        wait_until_done(page)
        yield page


def answer(page: Page, transcript: dict[str, Any]) -> None:
    """Answer requests for files with a transcript in two parts and a whole."""

    def transcribe(route: Route) -> None:
        parts = [{**transcript, "segments": part} for part in (SEGMENTS[:2], SEGMENTS[2:])]
        events = [{"type": "transcript.part", "transcript": part} for part in parts]
        events.append({"type": "transcript.done", "transcript": transcript})
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        route.fulfill(content_type="text/event-stream", body=text)

    page.route("**/v1/audio/transcriptions", transcribe)


def wait_until_done(page: Page) -> None:
    page.locator("#file-panel .status", has_text="Done").wait_for()


def word(page: Page, text: str) -> Locator:
    return page.locator("#file-panel .word", has_text=text)


def texts(page: Page) -> list[str]:
    """Return the words of each paragraph."""
    paragraphs = page.locator("#file-panel .segment").all()
    return [" ".join(one.locator(".word:visible").all_inner_texts()) for one in paragraphs]


def saved(page: Page, ending: str) -> str:
    with page.expect_download() as downloading:
        page.get_by_role("button", name=ending, exact=True).click()
    return downloading.value.path().read_text()


def asked(page: Page, button: str, *, is_accepted: bool) -> str:
    """Press a button, and return the question that it asks."""
    messages: list[str] = []

    def reply(dialog: Dialog) -> None:
        messages.append(dialog.message)
        if is_accepted:
            dialog.accept()
        else:
            dialog.dismiss()

    page.once("dialog", reply)
    page.get_by_role("button", name=button).click()
    (message,) = messages
    return message


def test_words_are_corrected_with_the_keyboard(page: Page) -> None:
    assert texts(page) == ["One tow three. Fourr.", "Five sicks."]
    word(page, "One").focus()
    page.keyboard.press("Tab")
    expect(word(page, "tow")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    expect(word(page, "two")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("seven")
    page.keyboard.press("Escape")
    expect(word(page, "two")).to_be_focused()
    # A field that is left for the next doubtful word is accepted.
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.type("Four.")
    page.keyboard.press("Tab")
    expect(word(page, "sicks.")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("!document.activeElement.matches('.word')"), "no doubtful word is left"
    assert texts(page) == ["One two three. Four.", "Five sicks."]
    # A word that goes away leaves the keyboard to the next one.
    word(page, "One").press("Enter")
    page.keyboard.press("Delete")
    page.keyboard.press("Enter")
    expect(word(page, "two")).to_be_focused()
    assert texts(page)[0] == "two three. Four."
    page.keyboard.press("Control+z")
    expect(word(page, "One")).to_be_focused()
    page.keyboard.press("Control+z")
    assert texts(page)[0] == "One two three. Fourr."
    page.keyboard.press("Control+Shift+Z")
    assert texts(page)[0] == "One two three. Four."
    # The mouse does it too, and leaving the field accepts.
    word(page, "sicks.").dblclick()
    page.keyboard.type("six of")
    page.get_by_role("heading", name="talk.wav").click()
    assert texts(page)[1] == "Five six of"
    assert serious_problems(page) == []


def test_what_is_saved_has_the_corrections(page: Page) -> None:
    word(page, "tow").press("Enter")
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    for name in ("An", "Ann"):
        page.get_by_label("Name of speaker A").fill(name)
    page.get_by_label("Who speaks").nth(1).select_option("another one")
    expect(page.get_by_label("Name of speaker B")).to_be_hidden()
    page.get_by_label("Name of speaker C").fill("Cy")
    assert saved(page, "txt") == "Ann: One two three. Fourr.\nCy: Five sicks.\n"
    assert "<v Cy>Five sicks." in saved(page, "vtt")
    assert "One two three." in saved(page, "srt")
    said = json.loads(saved(page, "json"))
    assert said["text"] == said["nbest"][0]["text"] == "One two three. Fourr. Five sicks."
    assert [item["speaker"] for item in said["segments"]] == ["Ann", "Ann", "Cy"]
    assert said["segments"][0]["words"][1]["text"] == "two"
    # A name is undone as a whole, and then the turn.
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Undo").click()
    assert page.get_by_label("Name of speaker B").is_visible()
    page.get_by_role("button", name="Undo").click()
    assert saved(page, "txt") == "A: One two three. Fourr.\nB: Five sicks.\n"


def test_paragraphs_without_speakers_are_in_the_text_file(page: Page) -> None:
    answer(page, {**TALK, "segments": [{**item, "speaker": ""} for item in SEGMENTS]})
    page.get_by_role("button", name="Transcribe again").click()
    page.locator("#file-panel .transcript:not(:has(select))").wait_for()
    wait_until_done(page)
    assert texts(page) == ["One tow three. Fourr.", "Five sicks."]
    assert saved(page, "txt") == "One tow three. Fourr.\n\nFive sicks.\n"


def test_corrections_outlast_a_reload_and_another_file(page: Page, files: list[Path]) -> None:
    word(page, "tow").press("Enter")
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    page.get_by_label("Name of speaker B").fill("Bo")
    page.reload()
    wait_until_done(page)
    page.get_by_role("heading", name="talk.wav").wait_for()
    assert page.locator("audio").get_attribute("src"), "the words can be heard"
    assert texts(page)[0] == "One two three. Fourr."
    page.locator("#file").set_input_files(files[1])
    page.get_by_role("heading", name="call.wav").wait_for()
    word(page, "tow").wait_for()
    wait_until_done(page)
    answer(page, {**TALK, "text": "", "segments": []})
    page.locator("#file").set_input_files(files[0])
    word(page, "two").wait_for()
    assert page.get_by_label("Name of speaker B").input_value() == "Bo"
    page.keyboard.press("Control+z")
    assert page.get_by_label("Name of speaker B").input_value() == ""
    page.keyboard.press("Control+z")
    assert texts(page)[0] == "One tow three. Fourr."


def test_the_files_that_were_transcribed_last_are_kept(page: Page) -> None:
    kept = page.evaluate(
        """async () => {
            const { keep, keepCorrections, kept } = await import("/page/kept.js");
            const ids = Array.from({ length: 12 }, (_, at) => `file ${at}`);
            for (const [at, id] of ids.entries()) {
                await keep({ id, opened: Date.now() + at, name: id, file: null, answers: [] });
                await keepCorrections(id, [at]);
            }
            return Promise.all(ids.map(kept));
        }"""
    )
    assert [bool(work) for work in kept] == [False] * 2 + [True] * 10
    assert [work["corrections"] for work in kept[2:]] == [[at] for at in range(2, 12)]


def test_corrections_are_not_lost_without_a_question(page: Page) -> None:
    word(page, "tow").press("Enter")
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    again = "The corrections of this file will be lost. Transcribe it again?"
    assert asked(page, "Transcribe again", is_accepted=False) == again
    assert texts(page)[0] == "One two three. Fourr."
    assert asked(page, "Transcribe again", is_accepted=True) == again
    word(page, "tow").wait_for()
    wait_until_done(page)
    # Nothing is corrected: there is nothing to ask.
    page.get_by_role("button", name="Close and forget").click()
    assert page.locator("#file-panel").is_hidden()
    page.reload()
    page.locator("#form-a form").wait_for(state="attached")
    assert page.locator("#file-panel").is_hidden()


def test_a_browser_that_keeps_nothing_says_so(page: Page) -> None:
    full = "() => { throw new DOMException('full'); }"
    page.evaluate(f"() => {{ IDBObjectStore.prototype.put = {full}; }}")
    word(page, "tow").press("Enter")
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    page.locator("#file-panel .status.is-problem", has_text="keeps no texts").wait_for()
    assert texts(page)[0] == "One two three. Fourr."


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_telephone(page: Page, scheme: Any) -> None:
    page.set_viewport_size({"width": PHONE_WIDTH, "height": 844})
    page.emulate_media(color_scheme=scheme)
    downloads, text = page.get_by_role("group", name="Download"), page.locator(".transcript").first
    above, below = downloads.bounding_box(), text.bounding_box()
    assert above is not None and below is not None
    assert above["y"] + above["height"] <= below["y"]
    word(page, "Five").dblclick()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE_WIDTH
    assert serious_problems(page) == []


def test_the_choices_have_decoders_and_numbers_of_speakers(page: Page) -> None:
    names = ["conch", "whisper-1", "gpt-transcribe", "conch-ctc", "tts-1", "gpt-4o-mini-tts"]
    page.route(
        "**/v1/models", lambda route: route.fulfill(json={"data": [{"id": one} for one in names]})
    )
    page.reload()
    page.locator("#choices > summary").click()
    decoders = page.locator("#form-a input[name=model]")
    values = decoders.evaluate_all("(all) => all.map((one) => one.value)")
    assert values == ["conch", "conch-ctc"]
    page.locator("#form-a").get_by_role("combobox", name="Speakers").select_option("2")
    assert "speakers=2" in page.locator("#choices-now").inner_text()
    page.locator("#plan-a svg").wait_for()
    assert page.locator(".path-picture:visible:not(:has(svg))").count() == 0, "no box is empty"
