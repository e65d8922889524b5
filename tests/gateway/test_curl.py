"""curl as OpenAI's documentation writes it, but for the address and the model."""

import json

import pytest
from gateways import Gateway
from programs import required
from recordings import wer
from subprocesses import output_of

pytestmark = pytest.mark.server


def transcribed(gateway: Gateway, *arguments: str) -> str:
    trust = ["--cacert", gateway.ca] if gateway.ca else []
    address = f"{gateway.openai_url}/audio/transcriptions"
    return output_of(required("curl"), "-sS", *trust, address, *arguments)


def test_a_recording(locked, speech):
    form = (
        *("-H", f"Authorization: Bearer {locked.key}", "-H", "Content-Type: multipart/form-data"),
        *("-F", f"file=@{speech.path}", "-F", "model=whisper-1"),
    )
    text = json.loads(transcribed(locked, *form))["text"]
    assert wer(speech.text, text) < 0.2
    verbose = *form, "-F", "response_format=verbose_json"
    words = json.loads(transcribed(locked, *verbose, "-F", "timestamp_granularities[]=word"))
    assert " ".join(word["word"] for word in words["words"]) == text == words["text"]
    # Without brackets, as many write it.
    said = json.loads(transcribed(locked, *verbose, "-F", "timestamp_granularities=segment"))
    assert said["segments"][0]["text"].strip() == text
    lines = transcribed(locked, *form, "-F", "stream=true").splitlines()
    events = [json.loads(line[len("data: ") :]) for line in lines if line.startswith("data: {")]
    assert events[-1]["text"] == text
    assert {line[:6] for line in lines if line and not line.startswith(":")} == {"data: "}


def test_the_shortest_request(gateway, speech):
    answer = json.loads(transcribed(gateway, "-F", f"file=@{speech.path}"))
    assert wer(speech.text, answer["text"]) < 0.2
