"""The unmodified `openai` package of npm, over TLS and with a key."""

import json
import os

import numpy as np
import pytest
import soxr
from gateways import Gateway
from programs import NODE_TESTS, required
from recordings import wer
from subprocesses import output_of

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def node(locked: Gateway):
    """Return a function that runs a script of this folder on the locked gateway."""
    program = required("node")
    required("npm")

    def run(script: str, *arguments: object):
        environment = {**os.environ, "NODE_EXTRA_CA_CERTS": locked.ca}
        command = (program, NODE_TESTS / script, locked.url, locked.key, *arguments)
        return json.loads(output_of(*command, env=environment))

    return run


def test_recordings(node, talk):
    answers = node("files.mjs", talk.path)
    text = answers["json"]["text"]
    assert wer(talk.text, text) < 0.2
    # What is no JSON comes as a string.
    assert answers["text"].strip() == text
    assert answers["srt"].startswith("1\n00:00:")
    assert answers["vtt"].startswith("WEBVTT\n\n")
    verbose = answers["verbose_json"]
    assert (verbose["task"], verbose["text"]) == ("transcribe", text)
    assert verbose["duration"] == pytest.approx(len(talk.waveform()) / 16_000, abs=0.01)
    assert " ".join(word["word"] for word in verbose["words"]) == text
    assert len(verbose["segments"][0]) == 10
    assert 24_000 < answers["speech"] < 120_000
    *deltas, done = answers["events"]
    assert "".join(event["delta"] for event in deltas) == done["text"] == text
    assert done["type"] == "transcript.text.done"
    assert len(answers["options"]["nbest"]) == 2
    assert len(set(answers["ids"])) == 1
    assert "whisper-1" in answers["models"]
    errors = answers["errors"]
    assert {name: error["status"] for name, error in errors.items()} == {
        "option": 400,
        "model": 404,
        "noise": 400,
        "key": 401,
    }
    assert [errors[name]["param"] for name in ("option", "model", "noise")] == [
        "nbest",
        "model",
        "file",
    ]
    assert all(error["requestID"] and error["message"] for error in errors.values())


@pytest.mark.parametrize("kind", ["ws", "websocket"])
def test_a_live_session(node, speech, tmp_path, kind):
    silence = np.zeros(24_000, np.float32)
    waveform = np.concatenate([speech.waveform(), silence])
    path = tmp_path / "speech.pcm"
    resampled = soxr.resample(waveform, 16_000, 24_000)
    path.write_bytes((np.clip(resampled, -1, 1) * 32767).astype("<i2").tobytes())
    events = node("realtime.mjs", path, kind)
    assert [event["type"] for event in events[:2]] == ["session.created", "session.updated"]
    completed = events[-1]
    assert wer(speech.text, completed["transcript"]) < 0.2
    item = "conversation.item.input_audio_transcription"
    deltas = [event for event in events if event["type"] == f"{item}.delta"]
    assert {event["item_id"] for event in deltas} == {completed["item_id"]}
