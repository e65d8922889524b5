"""Fitting a voice on a real server, with the weights of Kokoro and of speakers."""

import io
from collections.abc import Iterator
from pathlib import Path

import av
import pytest
import requests
import soundfile
from known_models import skip_without
from own_gateway import own_gateway
from recordings import wer

from conch.client import Client
from conch.families.kokoro import MODEL as KOKORO
from conch.families.speakers import MODEL as SPEAKERS
from conch.fitted_voices import FittedVoice, file_of
from conch.launcher import ServerConfig, TritonServer
from conch.synthesis.trial import SENTENCES
from conch.wire.errors import AudioError, OptionError

pytestmark = [pytest.mark.server, pytest.mark.nightly, pytest.mark.timeout(1800)]

TEXTS = (
    "Nobody knows where the old man went, or why he left the house so early.",
    "It was very cold, and the wind came over the hills from the north.",
    "She put the letter on the table, and waited for somebody to read it.",
    "They walked along the river until the lights of the town were gone.",
    "The old clock on the wall struck nine, and nobody said a word.",
    "In the morning the snow lay deep in the garden and on the road.",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a home with the models of this one, and no voices."""
    skip_without(KOKORO, SPEAKERS)
    from conch.families.family import models_home

    made = tmp_path_factory.mktemp("home")
    (made / "conch").mkdir()
    (made / "conch" / "models").symlink_to(models_home())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(made))
        yield made


def server() -> TritonServer:
    return TritonServer(ServerConfig(on_demand=True, voices_from_recordings=True, stop_timeout_s=8))


def until(client: Client, name: str, points: int) -> FittedVoice:
    while len((voice := client.fitted_voice(name)).curve) < points and voice.is_in_work:
        pass
    return voice


def test_a_voice_is_fitted_goes_on_after_a_restart_and_speaks(home: Path, tmp_path: Path) -> None:
    with server() as running, Client(f"grpc://{running.grpc_url}") as client:
        files = []
        for number, text in enumerate(TEXTS):
            spoken = client.synthesize(text, voice="am_onyx")
            files.append(tmp_path / f"{number}.wav")
            # Played faster it is somebody whom the model does not know.
            soundfile.write(files[-1], spoken.waveform, round(1.2 * spoken.spoken.sample_rate))
        with pytest.raises(AudioError, match="takes 3 to 50 recordings; sent: 2"):
            client.fit_voice("Ann", files[:2])
        begun = client.fit_voice("Ann", files, minutes=60)
        assert begun.status == "queued" and begun.error == ""
        first = until(client, "Ann", 1)
        assert first.curve[0][0] == 0 and first.wer is not None
        assert client.transcribe(files[0]).text  # others are served beside it
    assert file_of("Ann").stat().st_mode & 0o777 == 0o600
    with server() as running, Client(f"grpc://{running.grpc_url}") as client:
        voice = until(client, "Ann", 2)
        assert voice.curve[0] == first.curve[0] and voice.curve[1][0] == 20
        assert voice.curve[1][1] > voice.curve[0][1] + 0.03
        with own_gateway(f"grpc://{running.grpc_url}") as gateway:
            url = f"{gateway.url}/v1/audio"
            assert requests.post(f"{url}/voices/Ann/stop").json()["id"] == "Ann"
            while (shown := requests.get(f"{url}/voices/Ann").json())["status"] == "fitting":
                pass
            assert shown["status"] == "ready" and shown["wer"] < 20
            listed = requests.get(f"{url}/voices").json()
            assert [item["id"] for item in listed["fitted"]] == ["Ann"]
            ours = next(item for item in listed["voices"] if item["id"] == "Ann")
            assert ours["language"] in ("en-US", "en-GB")
            sent = {"input": SENTENCES[0], "voice": "Ann", "response_format": "mp3"}
            mp3 = requests.post(f"{url}/speech", json=sent, timeout=120).content
            with av.open(io.BytesIO(mp3)) as file:
                assert "fitted to recordings" in file.metadata["comment"]
            answer = client.synthesize(TEXTS[0], voice="Ann")
            assert answer.spoken.voice == "Ann" and answer.spoken.is_fitted
            heard = client.transcribe(answer.waveform, sample_rate=answer.spoken.sample_rate)
            assert wer(TEXTS[0], heard.text) < 0.25
            assert requests.delete(f"{url}/voices/Ann").json()["deleted"] is True
            assert requests.get(f"{url}/voices/Ann").status_code == 404
        with pytest.raises(OptionError, match="'voice' takes one of"):
            client.synthesize(TEXTS[0], voice="Ann")
    assert not file_of("Ann").exists()
