"""The page's voices from recordings, in a browser. The tests answer in place of a gateway."""

import io
import json
import re
from collections.abc import Callable, Iterator
from email import message_from_bytes
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import soundfile
from axe import serious_problems
from browsers import has_focus
from playwright.sync_api import Browser, Dialog, FilePayload, Locator, Page, Route, WebSocketRoute

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 360, "height": 740}
VOICES = "/v1/audio/voices"
SERVED = [{"id": "af_heart", "name": "af_heart", "language": "en", "description": "warm"}]
MIX = "af_sky:0.40,am_puck:0.60"
QUEUED: dict[str, Any] = {
    "object": "audio.voice",
    "id": "anna b",
    "name": "anna b",
    "created_at": 1764000000,
    "status": "queued",
    "mix": "",
    "similarity": None,
    "start_similarity": None,
    "wer": None,
    "steps": 0,
    "seconds": 0.0,
    "seconds_left": 600.0,
    "curve": [],
    "warnings": [],
    "error": "",
}
BEGUN = {
    **QUEUED,
    "status": "fitting",
    "mix": MIX,
    "similarity": 0.14,
    "start_similarity": 0.14,
    "wer": 1.3,
    "seconds_left": 598.0,
    "curve": [[0, 0.14]],
    "warnings": ["b.wav: most of it is silent"],
}
FURTHER = {
    **BEGUN,
    "similarity": 0.48,
    "steps": 40,
    "seconds_left": 301.0,
    "curve": [[0, 0.14], [20, 0.4], [40, 0.48]],
}
READY = {**FURTHER, "status": "ready", "seconds_left": 0.0}
HUM = """() => {
    navigator.mediaDevices.getUserMedia = async () => {
        const context = (window.context = new AudioContext());
        const hum = context.createOscillator();
        const out = context.createMediaStreamDestination();
        hum.connect(out);
        if (!window.isMuted) hum.start();
        return (window.stream = out.stream);
    };
}"""

DURATION = """(audio) => new Promise((resolve) => {
    audio.addEventListener("loadedmetadata", () => resolve(audio.duration));
    audio.load();
})"""


class FittingServer:
    """Answers a page in place of a gateway whose server fits voices, or does not."""

    def __init__(self, page: Page, *, fits: bool = True) -> None:
        self.page, self.fits = page, fits
        self.voices: dict[str, dict[str, Any]] = {}
        self.refusal: dict[str, str] | None = None
        self.asked: list[str] = []
        self.forms: list[dict[str, list[bytes]]] = []
        self.spoken: list[tuple[str, str]] = []
        page.route(re.compile(VOICES), self._answer)
        # The gateway of the tests knows no fitted voices.
        page.route(re.compile(r"/v1/components\?voice="), _answer_components)
        page.route_web_socket(re.compile(r"/v1/conch/speak\?"), self._speak)

    def _answer(self, route: Route) -> None:
        request = route.request
        path = unquote(urlsplit(request.url).path)
        name, _, action = path.removeprefix(VOICES)[1:].partition("/")
        asked = f"{request.method} {name} {action}".strip()
        self.asked.append(asked)
        if self.refusal and request.method != "GET":
            route.fulfill(status=400, json={"error": self.refusal})
        elif asked == "POST":
            self.forms.append(form_of(request.headers["content-type"], request.post_data_buffer))
            self.voices["anna b"] = QUEUED
            route.fulfill(json=QUEUED)
        elif asked == "GET":
            fitted = {"fitted": [*self.voices.values()]} if self.fits else {}
            route.fulfill(json={"object": "list", "voices": SERVED, **fitted})
        elif name not in self.voices:  # a look that comes after the voice is deleted
            error = {"message": "there is no such voice", "code": "voice_not_found"}
            route.fulfill(status=404, json={"error": error})
        elif request.method == "DELETE":
            del self.voices[name]
            route.fulfill(json={"id": name, "object": "audio.voice.deleted", "deleted": True})
        else:
            if action == "stop":
                self.voices[name] = READY
            route.fulfill(json=self.voices[name])

    def _speak(self, socket: WebSocketRoute) -> None:
        (voice,) = parse_qs(urlsplit(socket.url).query)["voice"]

        def take(message: str | bytes) -> None:
            said = json.loads(message)
            if said["type"] == "text":
                self.spoken.append((voice, said["text"]))
                return
            socket.send(bytes(4800))
            socket.send(json.dumps({"type": "flushed", "stages": {}, "warnings": []}))
            socket.send(json.dumps({"type": "end"}))

        socket.on_message(take)
        socket.send(json.dumps({"type": "ready", "sample_rate": 24000}))


def _answer_components(route: Route) -> None:
    route.fulfill(json={"components": []})


def form_of(content_type: str, body: bytes | None) -> dict[str, list[bytes]]:
    """Return what a form has, by name."""
    message = message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + (body or b""))
    fields: dict[str, list[bytes]] = {}
    for part in message.walk():
        if name := part.get_param("name", header="content-disposition"):
            payload = part.get_payload(decode=True)
            assert isinstance(payload, bytes)
            fields.setdefault(str(name), []).append(payload)
    return fields


Opening = Callable[..., tuple[Locator, FittingServer]]


@pytest.fixture
def open_section(browser: Browser, url: str) -> Iterator[Opening]:
    """Yield a function that opens a page, and returns its section and the server behind it."""
    contexts, faults = [], []

    def opened(
        voices: dict[str, dict[str, Any]] | None = None, *, stops: bool = False, **settings: Any
    ) -> tuple[Locator, FittingServer]:
        context = browser.new_context(**{"viewport": DESKTOP, **settings})
        contexts.append(context)
        context.on("weberror", lambda error: faults.append(str(error.error)))
        page = context.new_page()
        if stops:
            page.clock.install(time=0)
            page.clock.pause_at(1000)
        server = FittingServer(page)
        server.voices = voices or {}
        page.goto(url)
        section = page.locator("#say-panel details")
        section.locator("summary").click()
        page.evaluate(HUM)
        return section, server

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


def wav(name: str) -> FilePayload:
    return {"name": name, "mimeType": "audio/wav", "buffer": b"RIFF" + name.encode()}


def record(section: Locator, label: str) -> None:
    """Record a take."""
    button = section.get_by_role("button", name=label)
    button.click()
    stop = section.get_by_role("button", name="Stop recording")
    stop.wait_for()
    began = section.page.evaluate("window.context.currentTime")
    section.page.wait_for_function("(began) => window.context.currentTime > began + 0.3", arg=began)
    stop.click()
    button.wait_for()


def problem_of(field: Locator) -> str:
    return field.evaluate("(element) => element.validationMessage")


def width_of(page: Page) -> int:
    width = page.evaluate("document.documentElement.scrollWidth")
    assert isinstance(width, int)
    return width


def asked_after(server: FittingServer) -> list[str]:
    """Return what the page has asked since it was loaded, up to a last question for the list."""
    server.page.evaluate("(path) => fetch(path)", VOICES)
    first, *asked, last = server.asked
    assert first == last == "GET"
    server.asked[:] = [first]
    return asked


def voices_of(section: Locator) -> list[str | None]:
    """Return the voices that the panel offers."""
    values = "(all) => all.map((one) => one.value)"
    return section.page.locator("#say-panel select option").evaluate_all(values)


def points_of(section: Locator) -> int:
    """Return how many points the curve has."""
    line = section.locator("svg path.curve-line").get_attribute("d")
    return len(re.findall("[ML]", line or ""))


def test_a_server_that_fits_no_voices_has_nothing_of_it(browser: Browser, url: str) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        server = FittingServer(page, fits=False)
        page.goto(url)
        page.get_by_role("option", name="af_heart: warm").wait_for(state="attached")
        assert server.asked == ["GET"]
        assert page.get_by_text("A voice from recordings").is_hidden()


@pytest.mark.parametrize(
    ("viewport", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"]
)
def test_a_voice_is_fitted_heard_stopped_and_deleted(
    open_section: Opening, viewport: dict[str, int], scheme: str
) -> None:
    section, server = open_section(viewport=viewport, color_scheme=scheme)
    page = section.page
    section.get_by_label("Name").fill("anna b")
    section.locator("[name=audio_sample]").set_input_files([wav("a.wav"), wav("b.wav")])
    section.locator("[name=audio_sample]").set_input_files([wav("c.wav")])
    section.get_by_role("button", name="Remove b.wav").click()
    first = section.locator("q").inner_text()
    record(section, "Record the sentence")
    assert section.locator("q").inner_text() != first
    assert page.evaluate("window.stream.getTracks().map((one) => one.readyState)") == ["ended"]
    recordings = section.get_by_role("list", name="Recordings").get_by_role("listitem")
    assert [one.split()[0] for one in recordings.all_inner_texts()] == [
        "a.wav",
        "c.wav",
        "take-1.wav",
    ]
    lasts = recordings.last.locator("audio").evaluate(DURATION)
    assert lasts > 0.2
    assert server.asked == ["GET"], "nothing is sent before Fit is pressed"

    section.get_by_role("button", name="Fit").click()
    job = section.get_by_role("region", name="Voice anna b")
    job.get_by_text("Waiting for its turn.").wait_for()
    (form,) = server.forms
    assert (form["name"], form["minutes"]) == ([b"anna b"], [b"10"])
    *files, take = form["audio_sample"]
    assert files == [wav("a.wav")["buffer"], wav("c.wav")["buffer"]]
    assert "consent" not in form
    samples, rate = soundfile.read(io.BytesIO(take))
    assert (rate, samples.ndim, len(samples) / rate) == (16_000, 1, pytest.approx(lasts, abs=0.01))
    assert abs(samples).max() > 0.1
    assert recordings.count() == 0
    assert job.get_by_role("button", name="Listen after").is_hidden()
    assert voices_of(section) == ["af_heart"]

    server.voices["anna b"] = BEGUN
    job.get_by_text("similarity 0.14 (was 0.14), WER 1.3 %, 10 min left").wait_for()
    assert job.get_by_text("b.wav: most of it is silent").is_visible()
    assert points_of(job) == 1
    assert voices_of(section) == ["af_heart", "anna b", MIX]
    server.voices["anna b"] = FURTHER
    job.get_by_text("similarity 0.48 (was 0.14), WER 1.3 %, 5 min left").wait_for()
    assert points_of(job) == 3
    assert job.get_by_role("img", name="Similarity 0.14 at first, 0.48 after 40").is_visible()
    for name, voice in {"Listen before": MIX, "Listen after": "anna b"}.items():
        job.get_by_role("button", name=name).click()
        page.locator("#say-panel > .status", has_text="Done.").wait_for()
        assert server.spoken.pop() == (voice, "This is how the voice sounds.")
        assert page.locator("#say-panel select").input_value() == voice
    section.locator("[name=audio_sample]").set_input_files([wav("d.wav")])
    assert serious_problems(page) == []
    assert width_of(page) <= viewport["width"]

    job.get_by_role("button", name="Stop").click()
    job.get_by_text("Ready.").wait_for()
    assert job.get_by_role("button", name="Stop").is_hidden()
    assert job.get_by_role("button", name="Listen after").is_visible()
    delete = job.get_by_role("button", name="Delete")
    assert has_focus(delete)
    questions: list[str] = []

    def reply(dialog: Dialog) -> None:
        questions.append(dialog.message)
        dialog.accept() if len(questions) > 1 else dialog.dismiss()

    page.on("dialog", reply)
    delete.click()
    assert len(questions) == 1
    delete.click()
    job.wait_for(state="detached")
    assert (len(questions), server.asked.count("DELETE anna b")) == (2, 1)
    assert voices_of(section) == ["af_heart"]
    assert has_focus(section.locator("summary"))


def test_an_error_stands_at_its_field(open_section: Opening) -> None:
    section, server = open_section(viewport=PHONE)
    status = section.locator("form > .status")
    name, fit = section.get_by_label("Name"), section.get_by_role("button", name="Fit")
    consent = section.locator("[name=consent]")
    fit.click()
    assert has_focus(name)
    name.fill("anna b")
    server.refusal = {"message": "field 'audio_sample' takes 3 to 50", "param": "audio_sample"}
    fit.click()
    status.filter(has_text="takes 3 to 50").wait_for()
    files = section.locator("[name=audio_sample]")
    assert has_focus(files)
    assert problem_of(files) == "field 'audio_sample' takes 3 to 50"
    files.set_input_files([wav("a.wav"), wav("b.wav"), wav("c.wav")])
    assert problem_of(files) == ""
    assert consent.is_hidden()
    server.refusal = {"message": "the server wants a recording of the consent", "param": "consent"}
    fit.click()
    status.filter(has_text="wants a recording of the consent").wait_for()
    assert consent.is_visible()
    assert problem_of(consent) == "the server wants a recording of the consent"
    assert width_of(section.page) <= PHONE["width"]
    record(section, "Record the consent")
    assert problem_of(consent) == ""
    server.refusal = None
    fit.click()
    section.get_by_role("region", name="Voice anna b").wait_for()
    (form,) = server.forms
    (spoken,) = form["consent"]
    assert soundfile.info(io.BytesIO(spoken)).samplerate == 16_000
    assert len(form["audio_sample"]) == 3


def test_a_refused_press_is_told_until_the_next_one(open_section: Opening) -> None:
    section, server = open_section({"anna b": BEGUN})
    job = section.get_by_role("region", name="Voice anna b")
    server.refusal = {"message": "no speech server answers"}
    job.get_by_role("button", name="Stop").click()
    job.get_by_text("no speech server answers").wait_for()
    server.voices["anna b"] = FURTHER
    job.get_by_text("5 min left").wait_for()
    assert job.get_by_text("no speech server answers").is_visible()
    server.refusal = None
    job.get_by_role("button", name="Stop").click()
    job.get_by_text("Ready.").wait_for()
    assert job.get_by_text("no speech server answers").is_hidden()


def test_a_voice_is_asked_for_while_it_changes_and_somebody_looks(open_section: Opening) -> None:
    done = {**READY, "id": "bob", "name": "bob"}
    failed = {**BEGUN, "id": "eve", "name": "eve", "status": "failed", "error": "memory is short"}
    section, server = open_section({"anna b": QUEUED, "bob": done, "eve": failed}, stops=True)
    page = section.page
    assert section.get_by_text("Failed: memory is short").is_visible()
    assert voices_of(section) == ["af_heart", "bob", MIX]
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true, writable: true })")
    page.clock.run_for(5000)
    assert asked_after(server) == []
    page.evaluate("document.hidden = false")
    with page.expect_response("**/anna%20b"):
        page.clock.run_for(1000)
    server.voices["anna b"] = {**READY, "similarity": 0.55}
    with page.expect_response("**/anna%20b"):
        page.clock.run_for(1000)
    section.get_by_text("similarity 0.55").wait_for()
    assert voices_of(section) == ["af_heart", "bob", MIX, "anna b", MIX]
    page.clock.run_for(5000)
    assert asked_after(server) == ["GET anna b"] * 2


def test_recordings_are_dropped_on_the_section_alone(open_section: Opening) -> None:
    section, _ = open_section()
    transfer = section.page.evaluate_handle(
        """() => {
            const transfer = new DataTransfer();
            transfer.items.add(new File(["RIFF"], "dropped.wav"));
            return transfer;
        }"""
    )
    section.locator("form").dispatch_event("drop", {"dataTransfer": transfer})
    assert section.get_by_role("listitem").all_inner_texts() == ["dropped.wav\nRemove"]
    assert section.page.locator("#file-panel").is_hidden()


def test_a_silent_take_is_not_kept(open_section: Opening) -> None:
    section, _ = open_section()
    section.page.evaluate("window.isMuted = true")
    record(section, "Record the sentence")
    section.get_by_text("No sound arrives. Is the microphone muted?").wait_for()
    assert section.get_by_role("listitem").count() == 0
