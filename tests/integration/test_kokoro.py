"""Kokoro's voices on a real server, with the weights that `conch models get kokoro` brings."""

from collections.abc import Iterator

import numpy as np
import pytest
from known_models import skip_without
from recordings import wer

from conch.client import Client
from conch.families.kokoro import MODEL as KOKORO
from conch.launcher import ServerConfig, TritonServer
from conch.wire.entry_points import SYNTHESIS
from conch.wire.synthesis import synthesizer_of

pytestmark = [pytest.mark.server, pytest.mark.nightly]

PATH = synthesizer_of("af_heart").components
MODELS = ("speech", "vad", "ctc_encoder", "ctc_decoder", *SYNTHESIS, *PATH)
TEXT = "Nobody knows where the old man went, or why he left the house so early. It was very cold."


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    skip_without(KOKORO)
    config = ServerConfig(models=MODELS, on_demand=True, stop_timeout_s=8)
    with TritonServer(config) as running, Client(f"grpc://{running.grpc_url}") as found:
        assert not set(running.models()) & {*PATH}
        yield found


def test_a_voice_is_loaded_for_the_first_text_and_speaks_it_in_chunks(client: Client) -> None:
    *chunks, end = client.synthesize_stream(TEXT, voice="af_heart", timestamps=True)
    assert end.spoken.path == PATH and len(chunks) > 4
    assert len(chunks[0].waveform) == 20 * 600, "20 frames of 25 ms come first"
    samples = np.concatenate([item.waveform for item in chunks])
    assert end.spoken.duration == len(samples) / 24_000
    heard = client.transcribe(samples, sample_rate=24_000, decoder="ctc", word_timestamps=True)
    assert wer(TEXT, heard.text) < 0.25
    spoken = [word for chunk in chunks for item in chunk.spoken.sentences for word in item.words]
    recognised = [word for segment in heard.segments for word in segment.words]
    assert abs(len(spoken) - len(recognised)) < 2
    if len(spoken) == len(recognised):
        apart = [abs(a.start - b.start) for a, b in zip(spoken, recognised, strict=True)]
        assert np.median(apart) < 0.15


def test_names_of_openai_and_mixes_are_voices(client: Client) -> None:
    alloy = client.synthesize("Hello there.", voice="alloy")
    assert (alloy.spoken.voice, alloy.spoken.path) == ("alloy", PATH)
    named = client.synthesize("Hello there.", voice="af_alloy")
    np.testing.assert_array_equal(alloy.waveform, named.waveform)
    mixed = client.synthesize("Hello there.", voice="af_alloy:1,am_adam:1")
    assert mixed.spoken.duration > 0.5
    assert not np.array_equal(mixed.waveform[:8000], named.waveform[:8000])
