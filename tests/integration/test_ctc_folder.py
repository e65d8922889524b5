"""A folder of CTC in a server of its own, of random weights: recordings and live audio."""

from collections.abc import Iterator
from typing import Any

import ctc_toys
import numpy as np
import pytest
import wenet_toys
from recordings import Recording

from conch.client import Client
from conch.launcher import ServerConfig, TritonServer
from conch.wire.errors import OptionError

pytestmark = [pytest.mark.server, pytest.mark.nightly]
OFFLINE = ("ctc_encoder", "ctc_decoder")
LIVE = {"ctc_streaming_encoder", "ctc_streaming_decoder"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folders = tmp_path_factory.mktemp("ctc")
    config = ServerConfig(
        weights={"ctc": str(ctc_toys.icefall_live(folders / "own", seed=3))},
        named={
            "other": str(ctc_toys.wenet(folders / "other", seed=4)),
            "u2": str(wenet_toys.gpu(folders / "u2", wenet_toys.U2pp(1), is_live=True)),
        },
        on_demand=True,
        warm_up=True,
        stop_timeout_s=8,
    )
    with TritonServer(config) as server, Client(server.http_url) as client:
        yield client


def test_a_recording_is_written_by_the_folder(client: Client, recordings: list[Recording]) -> None:
    waveform = recordings[0].waveform()
    found = client.transcribe(waveform, vad=False, word_timestamps=True, beam_size=1)
    assert found.path == OFFLINE
    assert len(found.text.split()) > 5
    assert " ".join(word.text for word in found.words) == found.text
    times = [time for word in found.words for time in (word.start, word.end)]
    assert times == sorted(times) and times[-1] <= found.duration
    assert {segment.language for segment in found.segments} == {""}


def test_live_audio_is_written_too(client: Client, recordings: list[Recording]) -> None:
    waveform = recordings[0].waveform()[: 10 * 16_000]
    with client.live(endpointing=False, word_timestamps=True, max_utterance_s=28.0) as stream:
        texts = [
            stream.send(waveform[start : start + 5_000]).text
            for start in range(0, len(waveform), 5_000)
        ]
        last = stream.finish()
    assert {*last.path} - {"vad"} == LIVE
    assert any(texts[:-1]), "before the end"
    assert len(last.text.split()) > 5
    times = [time for word in last.words for time in (word.start, word.end)]
    assert times == sorted(times) and times[-1] <= len(waveform) / 16_000


def test_without_a_vad_the_model_says_where_speech_is(
    client: Client, recordings: list[Recording]
) -> None:
    with client.live(vad=False) as stream:
        last = stream.finish(recordings[0].waveform()[: 5 * 16_000])
    assert {*last.path} == LIVE and last.text


def test_a_named_folder_beside_it(client: Client, recordings: list[Recording]) -> None:
    waveform = recordings[1].waveform()[: 5 * 16_000]
    own, other = (client.transcribe(waveform, model=name) for name in ("", "other"))
    assert own.text and other.text and own.text != other.text
    assert {*other.path} - {"vad"} == {f"{name}.other" for name in OFFLINE}
    assert {segment.language for segment in other.segments} == {""}
    with client.live(model="other") as stream:
        assert stream.finish(waveform).text


def test_a_folder_of_wenet_beside_it(client: Client, recordings: list[Recording]) -> None:
    waveform = recordings[1].waveform()[: 5 * 16_000]
    plain = client.transcribe(waveform, model="u2", vad=False, own_rescore=False)
    found = client.transcribe(waveform, model="u2", vad=False, word_timestamps=True, nbest=3)
    assert found.path == ("wenet_encoder.u2", "wenet_decoder.u2")
    assert found.text != plain.text and len(found.segments[0].nbest) == 3
    assert " ".join(word.text for word in found.words) == found.text
    first, *_ = found.segments[0].nbest
    assert first.score < first.am_score == pytest.approx(plain.segments[0].nbest[0].am_score, abs=9)
    with client.live(model="u2", vad=False, endpointing=False) as stream:
        pieces = np.split(waveform, range(5_000, len(waveform), 5_000))
        texts = [stream.send(piece).text for piece in pieces]
        last = stream.finish()
    assert {*last.path} == {"wenet_streaming_encoder.u2", "wenet_streaming_decoder.u2"}
    assert last.text == found.text and any(texts)
    with client.live(mode="two_pass", decoder="wenet", model="u2") as stream:
        last = stream.finish(waveform)
    assert {segment.passes for segment in last.segments} == {2} and last.text
    for name in ("rescore", "ctc_rescore", "lm_fusion"):
        wrong: dict[str, Any] = {name: True}
        with pytest.raises(OptionError, match=f"'{name}'"):
            client.transcribe(waveform, model="u2", **wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder": "wfst"}, "'decoder' cannot be wfst here: no graph is loaded; conch graph"),
        ({"decoder": "ctc", "lm_fusion": True}, "'lm_fusion' takes false here: no language model"),
        ({"task": "translate"}, "'task' goes with decoder attention"),
        ({"hotwords": "Zürich"}, "'hotwords' takes phrases in the model's characters"),
    ],
)
def test_what_it_cannot_do_is_said(
    client: Client, recordings: list[Recording], options: dict, message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        client.transcribe(recordings[0].waveform()[:32_000], vad=False, **options)


def test_noise_alone(client: Client) -> None:
    assert client.transcribe(np.zeros(1_600, np.float32), vad=False).duration == 0.1
