"""Prompts of the default Whisper on a real server: it spells names as the prompt does."""

from pathlib import Path

import jiwer
import pytest
from recordings import recordings_of

from conch.wire.result import text_of_words

pytestmark = pytest.mark.server

SPOKEN = recordings_of(Path(__file__).parents[1] / "data")[2]


def is_nearly(text: str, wanted: str) -> bool:
    """Return whether at most one word in ten is another.

    Sums of int8 differ by processor, and so does which of two texts wins that are nearly alike.
    """
    return jiwer.wer(wanted, text) <= 0.1


def test_a_prompt_changes_the_spelling_of_its_names_and_nothing_else(client):
    plain = client.transcribe(SPOKEN.path, decoder="attention").text
    assert plain.startswith("Cray ") and " Oman's " in plain
    for _ in range(2):
        prompted = client.transcribe(SPOKEN.path, prompt="Kray and Omand.").text
        assert prompted.startswith("Kray ") and " Omand's " in prompted
        assert is_nearly(prompted, plain.replace("Cray", "Kray").replace("Oman", "Omand"))
    prompted = client.transcribe(SPOKEN.path, prompt="Kray.").text
    assert prompted.startswith("Kray ")
    assert is_nearly(prompted, plain.replace("Cray", "Kray"))


def test_the_passes_of_a_live_stream_read_the_prompt(client):
    waveform, prompt = SPOKEN.waveform(), "Kray and Omand."
    with client.live(mode="two_pass", adaptive=False, prompt=prompt) as stream:
        chunks = [waveform[first : first + 8_000] for first in range(0, len(waveform), 8_000)]
        utterances = [stream.send(chunk).utterance for chunk in chunks]
        final = stream.finish()
    firm = text_of_words(next(item.firm for item in reversed(utterances) if item))
    assert firm.split()[0] == "Kray"
    assert final.text == client.transcribe(SPOKEN.path, prompt=prompt).text
    assert final.text.startswith("Kray ") and " Omand's " in final.text
