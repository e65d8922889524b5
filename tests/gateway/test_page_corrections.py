"""The page's corrections of a transcript in a real browser. The tests answer for a server."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from axe import serious_problems
from browsers import saved
from playwright.sync_api import Browser, Dialog, Locator, Page, Route, expect

TRANSCRIPTIONS = "**/v1/audio/transcriptions"
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
# It has a segment that the other one lacks.
OTHER_TALK: dict[str, Any] = {
    **TALK,
    "text": "One two three. Fourr. Five sicks. Sven.",
    "segments": [
        segment(0.0, "A", ("One", SURE), ("two", DOUBTFUL), ("three.", SURE)),
        *SEGMENTS[1:],
        segment(20.0, "A", ("Sven.", DOUBTFUL)),
    ],
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
    """Answer requests for files with a transcript."""
    page.route(TRANSCRIPTIONS, lambda route: fulfill(route, transcript))


def fulfill(route: Route, transcript: dict[str, Any]) -> None:
    """Answer a request with a transcript in two parts and a whole."""
    parts = [{**transcript, "segments": part} for part in (SEGMENTS[:2], SEGMENTS[2:])]
    events = [{"type": "transcript.part", "transcript": part} for part in parts]
    events.append({"type": "transcript.done", "transcript": transcript})
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    route.fulfill(content_type="text/event-stream", body=text)


def compare(page: Page, first: dict[str, Any]) -> Route:
    """Compare two answers: one that is there, and that of the request that is returned."""
    waiting: list[Route] = []
    replies = iter([lambda route: fulfill(route, first), waiting.append])
    page.route(TRANSCRIPTIONS, lambda route: next(replies)(route))
    page.locator("#choices > summary").click()
    page.locator("#compare").check()
    places = count()
    with page.expect_request(lambda one: "/transcriptions" in one.url and next(places) == 1):
        page.get_by_role("button", name="Transcribe again").click()
    page.locator("#file-panel .status", has_text="B · ").wait_for()
    (route,) = waiting
    return route


def correct(page: Page, text: str, other: str) -> None:
    """Correct the first word with a text."""
    word(page, text).first.press("Enter")
    page.keyboard.type(other)
    page.keyboard.press("Enter")


def wait_until_done(page: Page) -> None:
    page.locator("#file-panel .status", has_text="Done").wait_for()


def word(page: Page, text: str) -> Locator:
    return page.locator("#file-panel .word", has_text=text)


def texts(page: Page) -> list[str]:
    """Return the words of each paragraph."""
    paragraphs = page.locator("#file-panel .segment").all()
    return [" ".join(one.locator(".word:visible").all_inner_texts()) for one in paragraphs]


def asked(page: Page, act: Callable[[], None], *, is_accepted: bool) -> str:
    """Do something, and return the question that it brings."""
    messages: list[str] = []

    def reply(dialog: Dialog) -> None:
        messages.append(dialog.message)
        if is_accepted:
            dialog.accept()
        else:
            dialog.dismiss()

    page.once("dialog", reply)
    act()
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
    correct(page, "tow", "two")
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
    correct(page, "tow", "two")
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
                await keep({ id, opened: Date.now() + at, name: id, file: null, answers: [] }, []);
                await keepCorrections(id, [at]);
            }
            return Promise.all(ids.map(kept));
        }"""
    )
    assert [bool(work) for work in kept] == [False] * 2 + [True] * 10
    assert [work["corrections"] for work in kept[2:]] == [[at] for at in range(2, 12)]


def test_a_file_that_is_opened_again_is_not_the_oldest_one(page: Page) -> None:
    keep_others = """async ([first, end]) => {
        const { keep } = await import("/page/kept.js");
        for (let at = first; at < end; at++) {
            const id = `file ${at}`;
            await keep({ id, opened: Date.now(), name: id, file: null, answers: [] }, []);
        }
    }"""
    correct(page, "tow", "two")
    page.evaluate(keep_others, [0, 9])
    page.reload()
    word(page, "two").wait_for()
    page.evaluate(keep_others, [9, 10])
    page.reload()
    word(page, "two").wait_for()


def test_a_word_that_is_typed_as_another_file_opens_is_kept(page: Page, files: list[Path]) -> None:
    correct(page, "Fourr.", "Four.")
    word(page, "tow").press("Enter")
    page.keyboard.type("two")
    page.locator("#file").set_input_files(files[1])
    page.get_by_role("heading", name="call.wav").wait_for()
    page.locator("#file").set_input_files(files[0])
    page.get_by_role("heading", name="talk.wav").wait_for()
    wait_until_done(page)
    assert texts(page)[0] == "One two three. Four."


def test_a_correction_is_kept_while_the_other_answer_comes(page: Page) -> None:
    second = compare(page, TALK)
    correct(page, "tow", "too")
    fulfill(second, OTHER_TALK)
    wait_until_done(page)
    page.reload()
    wait_until_done(page)
    both = ["One too three. Fourr.", "Five sicks.", "One two three. Fourr.", "Five sicks.", "Sven."]
    assert texts(page) == both


def test_corrections_never_meet_another_answer(page: Page) -> None:
    compare(page, OTHER_TALK)
    correct(page, "Sven.", "Seven.")
    page.get_by_role("button", name="Cancel").click()
    page.locator("#file-panel .status", has_text="Cancelled").wait_for()
    page.reload()
    wait_until_done(page)
    assert texts(page) == ["One two three. Fourr.", "Five sicks.", "Seven."]
    page.keyboard.press("Control+z")
    assert texts(page)[-1] == "Sven."


def test_an_answer_that_is_not_kept_leaves_none_for_its_corrections(page: Page) -> None:
    kept = page.evaluate(
        """async () => {
            const { keep, keepCorrections, kept } = await import("/page/kept.js");
            const work = { id: "file", opened: Date.now(), name: "file", file: null, answers: [] };
            await keep(work, []);
            const { put } = IDBObjectStore.prototype;
            IDBObjectStore.prototype.put = function (...values) {
                if (this.name === "works") throw new DOMException("full");
                return put.apply(this, values);
            };
            const problem = await keep(work, []).catch(({ message }) => message);
            await keepCorrections("file", [1]);
            return [problem, await kept("file")];
        }"""
    )
    assert kept == ["full", None]


def test_what_differs_stays_marked_in_turns_and_words(page: Page) -> None:
    fulfill(compare(page, TALK), {**OTHER_TALK, "segments": OTHER_TALK["segments"][:3]})
    wait_until_done(page)
    marked = page.locator("#file-panel .is-different")
    assert marked.all_inner_texts() == ["tow", "two"]
    page.get_by_label("Who speaks").first.select_option("another one")
    assert marked.all_inner_texts() == ["tow", "two"]
    page.get_by_role("button", name="Undo").first.click()
    assert marked.all_inner_texts() == ["tow", "two"]
    correct(page, "tow", "too")
    assert marked.all_inner_texts() == ["too", "two"]
    correct(page, "too", "Two")
    assert marked.all_inner_texts() == []
    page.locator("#file-panel .status", has_text="both answers have the same words").wait_for()


def test_corrections_are_not_lost_without_a_question(page: Page) -> None:
    correct(page, "tow", "two")
    question = "The corrections of this file will be lost. Transcribe it again?"
    again = page.get_by_role("button", name="Transcribe again")
    assert asked(page, again.click, is_accepted=False) == question
    assert texts(page)[0] == "One two three. Fourr."
    assert asked(page, again.click, is_accepted=True) == question
    word(page, "tow").wait_for()
    wait_until_done(page)
    # Nothing is corrected: there is nothing to ask.
    page.get_by_role("button", name="Close and forget").click()
    assert page.locator("#file-panel").is_hidden()
    page.reload()
    page.locator("#form-a form").wait_for(state="attached")
    assert page.locator("#file-panel").is_hidden()


def test_a_browser_that_keeps_nothing_says_so_and_asks(page: Page, files: list[Path]) -> None:
    full = "() => { throw new DOMException('full'); }"
    page.evaluate(f"() => {{ IDBObjectStore.prototype.put = {full}; }}")
    correct(page, "tow", "two")
    page.locator("#file-panel .status.is-problem", has_text="keeps no texts").wait_for()
    with page.expect_event("dialog") as leaving:
        page.once("dialog", lambda dialog: dialog.dismiss())
        page.get_by_role("link", name="API").click(no_wait_after=True)
    assert leaving.value.type == "beforeunload"
    question = "The corrections of this file will be lost. Open another one?"
    open_other = partial(page.locator("#file").set_input_files, files[1])
    assert asked(page, open_other, is_accepted=False) == question
    assert texts(page)[0] == "One two three. Fourr."
    assert asked(page, open_other, is_accepted=True) == question
    page.get_by_role("heading", name="call.wav").wait_for()


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
