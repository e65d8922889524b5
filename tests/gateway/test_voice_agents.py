"""Unmodified frameworks of voice agents speak through the gateway."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from gateways import Gateway

from conch.client import Client

HERE = Path(__file__).parent

pytestmark = [pytest.mark.server, pytest.mark.nightly, pytest.mark.timeout(900)]


def test_frameworks_speak_by_their_openai_services(gateway: Gateway, tmp_path: Path) -> None:
    python = str(tmp_path / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    needs = ["-r", str(HERE / "voice-agents.txt")]
    subprocess.run([python, "-m", "pip", "install", "-q", *needs], check=True)
    command = [python, str(HERE / "voice_agents.py"), gateway.openai_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = {name: seconds for item in said for name, seconds in item.items()}
    with Client(gateway.url) as client:
        whole = client.synthesize("Hello there. It works, and the rest is still being made.")
    assert found == pytest.approx(dict.fromkeys(found, whole.spoken.duration), abs=0.2)
    assert set(found) == {"livekit", "livekit, tts-1, pcm", "pipecat"}
