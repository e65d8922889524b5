"""Whisper base on a server, as `conch models get base` brings it and `--whisper base` serves it."""

from collections.abc import Iterator

import pytest
from chosen_weights import client_of
from recordings import Recording

from conch.client import Client
from conch.families.whisper import BASE
from conch.scoring.error_rates import word_error_rate
from conch.wire.errors import OptionError

pytestmark = [pytest.mark.server, pytest.mark.nightly]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with client_of(BASE, "base") as client:
        yield client


def test_it_knows_english(client: Client, recordings: list[Recording]) -> None:
    texts = [client.transcribe(item.waveform(), language="auto").text for item in recordings]
    wer = word_error_rate([item.text for item in recordings], texts)
    assert wer is not None and wer < 0.1


def test_it_takes_other_languages(client: Client, recordings: list[Recording]) -> None:
    """tiny.en refuses every one of them."""
    waveform = recordings[0].waveform()
    assert client.transcribe(waveform, language="zh").text
    with pytest.raises(OptionError, match="one of this model's 99 codes"):
        client.transcribe(waveform, language="xx")
