"""Languages with Whisper base: detected, chosen, translated, and two of them in one file.

Base is the one of `conch models get base`, or the folder that CONCH_TEST_WHISPER names.
CONCH_TEST_MANDARIN names a folder with two recordings or more and their `manifest.tsv`.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openai
import pytest
from recordings import Recording, recordings_of

from conch.catalogue.models import KINDS, find
from conch.client import Client
from conch.gateway.config import GatewayConfig
from conch.gateway.keys import KEYS_VARIABLE
from conch.gateway.service import GatewayService
from conch.launcher import ServerConfig, TritonServer
from conch.wire.errors import ConfigError, OptionError

pytestmark = [pytest.mark.server, pytest.mark.nightly]

COMPONENTS = ("vad", "attention_encoder", "attention_decoder")
PAUSE = np.zeros(24_000, np.float32)


@pytest.fixture(scope="module")
def server() -> Iterator[TritonServer]:
    """Yield a server whose Whisper is base."""
    whisper = os.environ.get("CONCH_TEST_WHISPER") or "base"
    try:
        find(KINDS["whisper"], whisper)
    except ConfigError as error:
        pytest.skip(str(error))
    config = ServerConfig(
        models=("speech", "speech_stream", *COMPONENTS),
        weights={"whisper": whisper},
        stop_timeout_s=8,
    )
    with TritonServer(config) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: TritonServer) -> Iterator[Client]:
    with Client(server.http_url) as client:
        yield client


@pytest.fixture(scope="module")
def chinese() -> list[Recording]:
    folder = os.environ.get("CONCH_TEST_MANDARIN", "")
    if not folder:
        pytest.skip("no Mandarin: set CONCH_TEST_MANDARIN")
    return recordings_of(Path(folder))


@pytest.fixture(scope="module")
def both(recordings: list[Recording], chinese: list[Recording]) -> np.ndarray:
    """Return one file of an English and a Chinese recording."""
    english = recordings[4].waveform()
    return np.concatenate([PAUSE, english, PAUSE, chinese[1].waveform(), PAUSE])


def test_the_language_is_told(client: Client, recordings, chinese) -> None:
    for item, language in ((recordings[4], "en"), (chinese[0], "zh")):
        found = client.transcribe(item.waveform())
        assert found.language == language == found.segments[0].language
        assert found.language_probability is not None and found.language_probability > 0.5
        asked = client.transcribe(item.waveform(), language=language, word_timestamps=True)
        assert (asked.language, asked.language_probability) == (language, None)
        assert asked.text and asked.words


def test_each_segment_of_a_file_in_two_languages_has_its_own(client: Client, both) -> None:
    found = client.transcribe(both, word_timestamps=True)
    assert [segment.language for segment in found.segments] == ["en", "zh"]
    english, chinese = found.segments
    assert "president" in english.text.lower()
    assert re.search(r"[\u4e00-\u9fff]{3}", chinese.text)
    assert chinese.end - chinese.start > english.end - english.start
    assert found.language == "zh"
    assert found.language_probability == chinese.language_probability


def test_a_choice_of_languages(client: Client, chinese) -> None:
    waveform = chinese[0].waveform()
    found = client.transcribe(waveform, languages="zh,en")
    assert found.language == "zh" and (found.language_probability or 0.0) > 0.9
    assert client.transcribe(waveform, languages="en,de").language in ("en", "de")
    assert client.transcribe(waveform, languages="en").language_probability is None


def test_a_translation_into_english(client: Client, both, chinese) -> None:
    found = client.transcribe(chinese[0].waveform(), task="translate", word_timestamps=True)
    assert (found.language, found.translated_from) == ("en", "zh")
    assert found.text.isascii() and found.words
    mixed = client.transcribe(both, task="translate")
    assert [segment.translated_from for segment in mixed.segments] == ["en", "zh"]


# OpenAI's client calls it so, and has it.
@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
def test_the_gateway_translates(server: TritonServer, chinese) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(KEYS_VARIABLE, raising=False)
        config = GatewayConfig(servers=(f"grpc://{server.grpc_url}",), port=0)
        with (
            GatewayService(config) as gateway,
            openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="any", max_retries=0) as client,
        ):
            found = client.audio.translations.create(
                model="whisper-1",
                file=("said.wav", chinese[0].path.read_bytes()),
                response_format="verbose_json",
            )
    assert found.language == "english"
    assert len(found.text.split()) > 3
    assert found.text.isascii()
    assert "".join(item.text for item in found.segments or ()).strip() == found.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "chinees"}, "option 'language' takes .* 99 codes; did you mean zh?"),
        ({"languages": "en,cn"}, "option 'languages' takes .* did you mean zh?"),
        ({"prompt": "蟹" * 240}, "option 'prompt' takes at most 223 of Whisper's tokens"),
    ],
)
def test_what_the_model_lacks_is_refused_by_name(client: Client, chinese, options, message) -> None:
    with pytest.raises(OptionError, match=message):
        client.transcribe(chinese[0].waveform(), **options)


def test_live_utterances_have_their_languages(client: Client, both) -> None:
    with client.live() as stream:
        for first in range(0, len(both), 16_000):
            stream.send(both[first : first + 16_000])
        found = stream.finish()
    assert [segment.language for segment in found.segments if segment.text] == ["en", "zh"]
    assert [segment.passes for segment in found.segments] == [2, 2]
