"""Speaker labels of a real server, with the models that `conch models get speakers` brings."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from recordings import Recording

from conch.catalogue.known import SPEAKERS
from conch.catalogue.places import state_of
from conch.client import Client, joined_parts
from conch.launcher import ServerConfig, TritonServer

pytestmark = [pytest.mark.server, pytest.mark.nightly]

LABELLERS = {"speaker_segmentation", "speaker_embedding"}
MODELS = ("speech", "speech_stream", "vad", "ctc_encoder", "ctc_decoder", *LABELLERS)
ASKED: Mapping[str, Any] = {"decoder": "ctc", "speakers": "auto"}


@pytest.fixture(scope="module")
def server() -> Iterator[TritonServer]:
    if wrong := state_of(SPEAKERS):
        pytest.skip(f"the models of speakers are {wrong}: {SPEAKERS.how_to_get}")
    config = ServerConfig(models=MODELS, on_demand=True, warm_up=True, stop_timeout_s=8)
    with TritonServer(config) as running:
        yield running


@pytest.fixture
def talk(recordings: list[Recording]) -> tuple[np.ndarray, list[tuple[float, int]]]:
    """Return a talk of two voices, and when each turn ends and whose it is."""
    first, second = (
        next(item.waveform() for item in recordings if item.path.name == f"kokoro_{name}.ogg")
        for name in ("0_00788", "1_00119")
    )
    pause = np.zeros(8_000, np.float32)
    turns = [(0, first), (1, second)] * 2
    parts = [part for _, turn in turns for part in (turn, pause)]
    ends = np.cumsum([len(turn) + len(pause) for _, turn in turns]) / 16_000
    whose = [who for who, _ in turns]
    return np.concatenate(parts), list(zip(ends.tolist(), whose, strict=True))


def test_each_voice_has_its_letter(server, talk) -> None:
    waveform, turns = talk
    assert LABELLERS.isdisjoint(server.models())
    with Client(server.http_url) as client:
        found = client.transcribe(waveform, **ASKED)
    assert [speaker.name for speaker in found.speakers] == ["A", "B"]
    whose = [next(who for end, who in turns if word.start < end) for word in found.words]
    right = ["AB"[who] == word.speaker for who, word in zip(whose, found.words, strict=True)]
    assert np.mean(right) > 0.95
    assert set(found.path) >= LABELLERS
    assert set(server.models()) >= LABELLERS


def test_a_streamed_answer_ends_with_the_labels(server, talk) -> None:
    with Client(f"grpc://{server.grpc_url}") as client:
        whole = client.transcribe(talk[0], **ASKED)
        joined = joined_parts(list(client.stream(talk[0], **ASKED)))
    assert (joined.text, joined.turns) == (whole.text, whole.turns)
    assert [item.speaker for item in joined.segments] == [item.speaker for item in whole.segments]


def test_bad_input_is_answered(server) -> None:
    random = np.random.default_rng(1)
    with Client(server.http_url) as client:
        for waveform in (np.zeros(32_000), random.standard_normal(16_000) * 0.1, np.zeros(100)):
            found = client.transcribe(waveform.astype(np.float32), **ASKED)
            assert len(found.speakers) <= 1
