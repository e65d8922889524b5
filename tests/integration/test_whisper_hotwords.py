"""Hotwords in Whisper's text, on a real server: offline and live."""

from pathlib import Path

import numpy as np
import pytest
from recordings import recordings_of

from conch.client import Client
from conch.wire.errors import ConchError

[SPOKEN] = recordings_of(Path(__file__).parents[1] / "data" / "hotwords")
LIST = "Syme, Prynne, Uncas, Timaeus, Poyser, Soames"


@pytest.fixture
def client(server):
    with Client(f"grpc://{server.grpc_url}") as made:
        yield made


def test_a_name_is_spelled_as_the_request_spells_it_and_the_rest_stays(client):
    plain = client.transcribe(SPOKEN.path).text
    hot = client.transcribe(SPOKEN.path, hotwords=LIST, word_timestamps=True)
    assert "Syme" not in plain
    assert hot.text == plain.replace(plain.split("'")[0], "Syme", 1)
    assert " ".join(word.text for word in hot.words) == hot.text
    assert client.transcribe(SPOKEN.path, hotwords=LIST.upper()).text.startswith("SYME's egotism")


@pytest.mark.parametrize("vad", [True, False])
def test_no_name_leaks_into_silence_or_noise(client, vad):
    noise = 0.1 * np.random.default_rng(0).standard_normal(48_000).astype(np.float32)
    for sound in (np.zeros(48_000, np.float32), noise):
        plain = client.transcribe(sound, vad=vad, coverage=False).text
        hot = client.transcribe(sound, vad=vad, coverage=False, hotwords=LIST).text
        assert hot == plain


def test_a_faulty_list_is_refused(client):
    with pytest.raises(ConchError, match="option 'hotwords' takes a number after a colon"):
        client.transcribe(SPOKEN.path, hotwords="Syme:much")
