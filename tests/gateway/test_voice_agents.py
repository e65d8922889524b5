"""Unmodified frameworks of voice agents speak through the gateway."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gateways import Gateway
from recordings import Recording, wer
from subprocesses import output_of

from conch.client import Client

HERE = Path(__file__).parent

pytestmark = [pytest.mark.server, pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a Python with the frameworks."""
    folder = tmp_path_factory.mktemp("frameworks")
    python = str(folder / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    needs = ["-r", str(HERE / "voice-agents.txt")]
    subprocess.run([python, "-m", "pip", "install", "-q", *needs], check=True)
    return python


def answers(python: str, *arguments: str) -> dict[str, Any]:
    text = output_of(python, HERE / "voice_agents.py", *arguments, timeout_s=300)
    said = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {name: result for item in said for name, result in item.items()}


def spoken_s(gateway: Gateway) -> float:
    """Return the seconds of the text that the frameworks speak."""
    with Client(gateway.url) as client:
        whole = client.synthesize("Hello there. It works, and the rest is still being made.")
    return whole.spoken.duration


def test_they_hear_and_speak_by_their_nvidia_services(
    gateway: Gateway, python: str, talk: Recording
) -> None:
    result = answers(python, gateway.riva, str(talk.path))
    received = {name: result.pop(f"{name} hears") for name in ("livekit", "pipecat")}
    assert {name: wer(talk.text, text) < 0.2 for name, text in received.items()} == dict.fromkeys(
        received, True
    ), received
    assert result == pytest.approx(
        dict.fromkeys(("livekit", "pipecat"), spoken_s(gateway)), abs=0.3
    )


def test_they_hear_and_speak_by_their_deepgram_services(
    gateway: Gateway, python: str, talk: Recording
) -> None:
    result = answers(python, gateway.url, str(talk.path))
    names = (
        *("livekit hears", "livekit hears turns", "livekit hears a recording"),
        *("pipecat hears", "pipecat hears turns"),
    )
    received = {name: result.pop(name) for name in names}
    assert {name: wer(talk.text, text) < 0.2 for name, text in received.items()} == dict.fromkeys(
        received, True
    ), received
    assert result.pop("start_of_speech") and result.pop("end_of_speech")
    assert result.pop("a turn begins")
    assert result == pytest.approx(
        dict.fromkeys(("livekit", "livekit, by POST", "pipecat"), spoken_s(gateway)), abs=0.3
    )


def test_frameworks_speak_by_their_openai_services(gateway: Gateway, python: str) -> None:
    result = answers(python, gateway.openai_url)
    assert result == pytest.approx(dict.fromkeys(result, spoken_s(gateway)), abs=0.2)
    assert set(result) == {"livekit", "livekit, tts-1, pcm", "pipecat"}
