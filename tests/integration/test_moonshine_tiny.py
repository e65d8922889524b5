"""Moonshine tiny, as `conch models get moonshine-tiny` brings and `--moonshine tiny` serves it."""

from collections.abc import Iterator

import pytest
from chosen_weights import client_of
from recordings import Recording

from conch.client import Client
from conch.families.moonshine import TINY as MOONSHINE_TINY
from conch.scoring.error_rates import word_error_rate

pytestmark = [pytest.mark.server, pytest.mark.nightly]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with client_of(MOONSHINE_TINY, "tiny") as client:
        yield client


def test_it_takes_the_place_of_base(client: Client, recordings: list[Recording]) -> None:
    found = [
        client.transcribe(item.waveform(), decoder="moonshine", word_timestamps=True)
        for item in recordings
    ]
    wer = word_error_rate([item.text for item in recordings], [item.text for item in found])
    assert wer is not None and wer < 0.1
    for item in found:
        assert " ".join(word.text for word in item.words) == item.text
