"""The page's panels in a real browser. The tests answer in place of a speech server."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import has_focus, saved
from playwright.sync_api import (
    Browser,
    Dialog,
    FilePayload,
    Page,
    Route,
    WebSocketRoute,
)

LISTEN = re.compile(r"/v1/conch/listen\?")
ANSWER = {
    "text": "Two words",
    "duration": 2.0,
    "path": [],
    "stages": {"total": {"calls": 1, "ms": 10.0}},
    "warnings": [],
    "nbest": [{"text": "Two words"}, {"text": "Too words"}],
    "segments": [
        {
            "start": 0.0,
            "end": 2.0,
            "text": "Two words",
            "words": [
                {"text": "Two", "start": 0.0, "end": 1.0, "confidence": 0.9},
                {"text": "words", "start": 1.0, "end": 2.0, "confidence": 0.9},
            ],
        }
    ],
}
END = {"type": "end", "text": "", "duration": 3.0}


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        context.grant_permissions(["microphone"], origin=url)
        page = context.new_page()
        page.goto(url)
        page.locator("#form-a form").wait_for(state="attached")
        yield page


def answer(page: Page, on_audio: Callable[[WebSocketRoute], None]) -> None:
    """Answer live sessions: `on_audio` with the first audio of each, and the end once asked."""

    def serve(socket: WebSocketRoute) -> None:
        received: list[bytes] = []

        def take(message: str | bytes) -> None:
            if isinstance(message, bytes):
                received.append(message)
                if len(received) == 1:
                    on_audio(socket)
            elif json.loads(message)["type"] == "close":
                tell(socket, END)
                socket.close(code=1000)

        socket.on_message(take)
        tell(socket, {"type": "ready", "session": "sess_1"})

    page.route_web_socket(LISTEN, serve)


def tell(socket: WebSocketRoute, message: dict[str, Any]) -> None:
    socket.send(json.dumps(message))


def said(text: str) -> dict[str, Any]:
    times = {"start": 0.0, "end": 2.0}
    ended = {"final": True, "endpoint": "silence", "words": []}
    return {"type": "segment", "index": 0, "text": text, **times, **ended}


def wait_for(page: Page, text: str) -> None:
    page.locator("#live-panel .status", has_text=text).wait_for()


def wait_until_off(page: Page) -> None:
    page.locator("#speak[data-state=off]").wait_for()


def test_another_session_goes_on_after_the_first(page: Page) -> None:
    texts = iter(["First.", "Second."])
    answer(page, lambda socket: tell(socket, said(next(texts))))
    for text in ("First.", "Second."):
        page.locator("#speak").click()
        page.get_by_text(text, exact=True).wait_for()
        wait_for(page, "Listening.")
        # The button that ends an utterance goes away with the session.
        page.get_by_role("button", name="End utterance").focus()
        page.locator("#speak").evaluate("(button) => button.click()")
        wait_for(page, "Ended.")
        assert has_focus(page.locator(".utterances"))
    assert page.locator(".utterances .firm").all_inner_texts() == ["First.", "Second."]
    segments = json.loads(saved(page, "json"))["segments"]
    assert [(one["index"], one["text"]) for one in segments] == [(0, "First."), (1, "Second.")]
    assert segments[1]["start"] >= segments[0]["end"]


def test_the_page_is_not_left_in_mid_session(page: Page) -> None:
    answer(page, lambda socket: tell(socket, said("Still here.")))
    page.locator("#speak").click()
    wait_for(page, "Listening.")
    dialogs: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        dialogs.append(dialog.type)
        dialog.dismiss()

    page.on("dialog", dismiss)
    with page.expect_event("dialog"):
        page.get_by_role("link", name="API").click(no_wait_after=True)
    page.locator("#speak").click()
    wait_for(page, "Ended.")
    assert dialogs == ["beforeunload"]
    page.get_by_role("link", name="API").click()
    page.wait_for_url("**/docs")
    assert dialogs == ["beforeunload"]


def test_a_microphone_that_comes_after_stop_is_closed(page: Page) -> None:
    page.evaluate(
        """() => {
            const { mediaDevices } = navigator;
            const open = mediaDevices.getUserMedia.bind(mediaDevices);
            mediaDevices.getUserMedia = async (asked) => {
                await new Promise((resolve) => (window.allow = resolve));
                return (window.stream = await open(asked));
            };
        }"""
    )
    page.locator("#speak").click()
    wait_for(page, "Waiting for the microphone")
    page.locator("#speak").click()
    wait_until_off(page)
    page.evaluate("window.allow()")
    page.wait_for_function(
        "() => window.stream?.getTracks().every((track) => track.readyState === 'ended')"
    )
    assert page.locator("#speak").get_attribute("data-state") == "off"


def test_a_pause_of_the_browser_is_told(page: Page) -> None:
    page.evaluate(
        """() => {
            const Own = window.AudioContext;
            window.AudioContext = class extends Own {
                constructor(options) { super(options); window.made = this; }
            };
        }"""
    )
    answer(page, lambda socket: None)
    page.locator("#speak").click()
    wait_for(page, "Listening.")
    page.evaluate("() => { window.made.resume = async () => {}; return window.made.suspend(); }")
    wait_for(page, "The browser gives no sound")
    page.evaluate("() => Object.getPrototypeOf(AudioContext.prototype).resume.call(window.made)")
    wait_for(page, "Listening.")
    page.locator("#speak").click()
    wait_for(page, "Ended.")


def test_the_end_of_a_session_has_its_reason(page: Page) -> None:
    def expire(socket: WebSocketRoute) -> None:
        tell(socket, {"type": "error", "error": {"message": "it has lasted too long"}})
        tell(socket, END)
        socket.close(code=1008)

    def leave(socket: WebSocketRoute) -> None:
        tell(socket, END)
        socket.close(code=1001)

    for on_audio, reason in ((expire, "it has lasted too long"), (leave, "The server ended")):
        answer(page, on_audio)
        page.locator("#speak").click()
        wait_for(page, reason)
        wait_until_off(page)


def test_a_session_goes_on_after_its_connection_is_lost(page: Page) -> None:
    opened: list[str] = []
    received: list[int] = []

    def serve(socket: WebSocketRoute) -> None:
        opened.append(socket.url)
        number = len(opened)
        frames: list[bytes] = []
        if number == 2:  # it is still away
            socket.close(code=1013)
            return

        def take(message: str | bytes) -> None:
            if isinstance(message, bytes):
                frames.append(message)
                if len(frames) == 25:
                    received.append(number)
                    (first if number == 1 else later)(socket)
            elif json.loads(message)["type"] == "close":
                tell(socket, END)
                socket.close(code=1000)

        socket.on_message(take)
        tell(socket, {"type": "ready", "session": f"sess_{number}"})

    def first(socket: WebSocketRoute) -> None:
        texts = {"firm": "One two", "tentative": "three", "newest": "", "text": "One two three"}
        tell(socket, {"type": "text", "index": 0, "start": 0.1, "audio_s": 1.0, **texts})
        tell(socket, {"type": "resume", "from": 0.4, "told": 0.62})
        tell(socket, {"type": "error", "error": {"message": "no speech server answers"}})
        socket.close(code=1013)

    def later(socket: WebSocketRoute) -> None:
        tell(socket, {"type": "stats", "audio_s": 1.0, "path": [], "stages": {}, "rolling": None})
        tell(socket, said("three four."))

    page.route_web_socket(LISTEN, serve)
    page.locator("#speak").click()
    page.get_by_text("three four.").wait_for()
    wait_for(page, "Listening. The connection was lost, and the text goes on.")
    assert page.locator(".utterances .firm").all_inner_texts() == ["One two", "three four."]
    page.locator("#speak").click()
    wait_for(page, "Ended.")
    assert received == [1, 3]
    assert "told_s" not in opened[0]
    assert ["told_s=0.220" in url for url in opened[1:]] == [True, True]
    assert "include=stats%2Cresume" in opened[0]


def test_a_refusal_has_its_reason(page: Page) -> None:
    # The gateway is right, but nothing is behind it.
    page.locator("#speak").click()
    wait_for(page, "The server takes no more sessions now")
    page.locator("#choices > summary").click()
    page.get_by_text("All other options").first.click()
    # What live audio does not take is known to the server alone.
    page.locator("#form-a").get_by_role("combobox", name="mode").select_option("offline")
    page.locator("#speak").click()
    wait_for(page, "option 'mode' of a stream's chunks cannot be offline")


def test_a_value_beyond_its_range_is_shown_where_it_stands(page: Page) -> None:
    page.locator("#choices > summary").click()
    page.get_by_text("All other options").first.click()
    field = page.locator("#form-a").get_by_label("beam_size")
    assert field.input_value() == ""
    assert field.get_attribute("placeholder").startswith("1;")
    field.fill("1000")
    page.locator("#choices > summary").click()
    page.locator("#speak").click()
    assert field.is_visible()
    assert has_focus(field)
    assert page.locator("#speak").get_attribute("data-state") == "off"
    field.fill("5")
    assert "beam_size=5" in page.locator("#choices-now").inner_text()


def answer_files(page: Page, transcript: dict[str, Any]) -> None:
    """Answer requests for files, streamed or not, with a transcript."""

    def transcribe(route: Route) -> None:
        events = [
            {"type": "transcript.part", "transcript": transcript},
            {"type": "transcript.done", "transcript": transcript},
        ]
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        if 'name="stream"' in (route.request.post_data or ""):
            route.fulfill(content_type="text/event-stream", body=text)
        else:
            route.fulfill(json=transcript)

    page.route("**/v1/audio/transcriptions", transcribe)
    file: FilePayload = {"name": "a.wav", "mimeType": "audio/wav", "buffer": b"RIFF"}
    page.locator("#file").set_input_files(file)


def test_a_speaker_gets_a_name_in_the_text_and_in_what_is_saved(page: Page) -> None:
    segments = [
        {"start": float(at), "end": at + 1.0, "text": text, "speaker": who}
        for at, (who, text) in enumerate([("A", "Two"), ("B", "words"), ("A", "more")])
    ]
    speakers = [{"name": "A", "seconds": 2.0}, {"name": "B", "seconds": 1.0}]
    answer_files(page, {**ANSWER, "segments": segments, "speakers": speakers})
    names = page.locator(".transcript .speaker")
    page.get_by_label("Name of speaker A").fill("Ann <a>")
    shown = names.evaluate_all("(all) => all.map((one) => one.selectedOptions[0].text)")
    assert shown == ["Ann <a>", "B", "Ann <a>"]
    colours = names.evaluate_all("(all) => all.map((one) => getComputedStyle(one).color)")
    assert colours[0] == colours[2] != colours[1]
    for ending, text in {"txt": "Ann <a>: Two\n", "vtt": "<v Ann &lt;a&gt;>Two"}.items():
        assert text in saved(page, ending)


def test_live_speakers_have_colours_and_keep_their_names(page: Page) -> None:
    words = [
        {"text": text, "start": 0.1 + at / 2, "end": 0.5 + at / 2, "confidence": 0.9}
        for at, text in enumerate(["One", "two", "three", "four."])
    ]
    texts = {
        "firm": "One two",
        "tentative": "three",
        "newest": "four.",
        "text": "One two three four.",
    }
    spoken = {"type": "text", "index": 0, "start": 0.1, "audio_s": 2.0, **texts}
    sockets: list[WebSocketRoute] = []

    def speak(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        tell(socket, spoken)
        tell(socket, {**spoken, "words": labelled("AAB")})

    def labelled(speakers: str) -> list[dict[str, Any]]:
        pairs = zip(words, speakers.ljust(4), strict=True)
        return [{**word, "speaker": who} if who.strip() else word for word, who in pairs]

    answer(page, speak)
    page.locator("#speak").click()
    marks = page.locator(".utterances .speaker")
    page.get_by_label("Name of speaker B").wait_for()
    assert marks.all_inner_texts() == ["A", "B"]
    page.get_by_label("Name of speaker A").fill("Ann")
    line = page.locator(".utterances p")
    assert line.inner_text() == "Ann One two B three four."
    colours = marks.evaluate_all("(all) => all.map((one) => getComputedStyle(one).color)")
    assert colours[0] != colours[1]
    # The name holds, and the field the keyboard, when others speak and the text goes on.
    (socket,) = sockets
    tell(socket, {**said("One two three four."), "speaker": "A", "words": labelled("AABC")})
    page.get_by_label("Name of speaker C").wait_for()
    assert has_focus(page.get_by_label("Name of speaker A"))
    assert line.inner_text() == "Ann One two B three C four."
    assert saved(page, "txt") == "Ann: One two\nB: three\nC: four.\n"
    # The end says who it was.
    turns = [{"speaker": "A", "start": 1.0, "end": 2.1}]
    tell(socket, {**END, "relabelled": turns})
    socket.close(code=1000)
    wait_for(page, "Labelled again: 1 with another speaker.")
    assert line.inner_text() == "Ann One two three four."
    assert page.get_by_label("Name of speaker C").is_hidden()


def test_a_file_keeps_the_keyboards_place(page: Page) -> None:
    answer_files(page, ANSWER)
    status = page.locator("#file-panel .status")
    status.filter(has_text="Done: 2 words.").wait_for()
    again = page.get_by_role("button", name="Transcribe again")
    again.press("Enter")
    status.filter(has_text="Done: 2 words.").wait_for()
    again.wait_for()
    assert has_focus(again)
    words = page.locator(".transcript .word")
    words.first.focus()
    words.first.press("ArrowRight")
    assert has_focus(words.last)
    went = words.last.evaluate(
        """(word) => word.dispatchEvent(new KeyboardEvent("keydown", {
            key: "ArrowLeft", altKey: true, bubbles: true, cancelable: true,
        }))"""
    )
    assert went, "it is left to the browser"
    assert has_focus(words.last)
    page.get_by_role("button", name="Other candidates").press("Enter")
    page.locator(".candidates td.candidate").nth(1).wait_for()
    assert has_focus(page.locator(".candidates > div"))


@pytest.mark.parametrize("change", ["moved", "proxy"])
def test_a_file_that_fails_leaves_nothing_stuck(page: Page, tmp_path: Path, change: str) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"RIFF")
    if change == "proxy":
        page.route("**/v1/audio/transcriptions", lambda route: route.fulfill(body="<html>"))
        why = "What answers at this address is not Conch's server."
    else:
        # As a file does that is written anew between its choice and its reading.
        page.evaluate(
            """() => {
                const arrayBuffer = () => Promise.reject(new DOMException("", "NotReadableError"));
                File.prototype.slice = () => ({ arrayBuffer });
            }"""
        )
        page.route("**/v1/audio/transcriptions", lambda route: route.abort())
        why = "The file cannot be read"
    page.locator("#file").set_input_files(path)
    page.locator("#file-panel .status.is-problem", has_text=why).wait_for()
    assert page.get_by_role("button", name="Cancel").is_hidden()
    assert page.get_by_role("button", name="Transcribe again").is_visible()
