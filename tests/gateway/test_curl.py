"""curl as OpenAI's documentation writes it, but for the address and the model."""

import json

import pytest
from gateways import Gateway
from programs import required
from recordings import wer
from subprocesses import output_of

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def curl():
    program = required("curl")

    def run(gateway: Gateway, path: str, *arguments: str) -> str:
        trust = ["--cacert", gateway.ca] if gateway.ca else []
        return output_of(program, "-sS", *trust, f"{gateway.openai_url}{path}", *arguments)

    return run


MULTIPART = ("-H", "Content-Type: multipart/form-data")


def test_a_recording(curl, locked, speech):
    authorization = "-H", f"Authorization: Bearer {locked.key}"
    form = *authorization, *MULTIPART, "-F", f"file=@{speech.path}", "-F", "model=whisper-1"

    def transcribed(*more: str):
        return json.loads(curl(locked, "/audio/transcriptions", *form, *more))

    text = transcribed()["text"]
    assert wer(speech.text, text) < 0.2
    verbose = "-F", "response_format=verbose_json"
    words = transcribed(*verbose, "-F", "timestamp_granularities[]=word")
    assert " ".join(word["word"] for word in words["words"]) == text == words["text"]
    # Without brackets, as many write it.
    segments = transcribed(*verbose, "-F", "timestamp_granularities=segment")
    assert segments["segments"][0]["text"].strip() == text
    lines = curl(locked, "/audio/transcriptions", *form, "-F", "stream=true").splitlines()
    events = [json.loads(line[len("data: ") :]) for line in lines if line.startswith("data: {")]
    assert events[-1]["text"] == text
    assert {line[:6] for line in lines if line and not line.startswith(":")} == {"data: "}


def test_the_shortest_request(curl, gateway, speech):
    answer = json.loads(curl(gateway, "/audio/transcriptions", "-F", f"file=@{speech.path}"))
    assert wer(speech.text, answer["text"]) < 0.2


def test_keys_by_either_header(curl, locked):
    models = json.loads(curl(locked, "/models", "-H", f"X-API-Key: {locked.key}"))
    assert models["object"] == "list"
    head = curl(
        locked, "/models", "-o", "/dev/null", "-w", "%{http_code} %header{www-authenticate}"
    )
    assert head == "401 Bearer"
    error = json.loads(curl(locked, "/models", "-H", "Authorization: Bearer wrong"))["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")
