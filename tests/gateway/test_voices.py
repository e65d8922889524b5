"""Voices that are fitted, over HTTP: the gateway and Conch's own client, before a plain server."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from plain_voices import PlainServer, voice_gateway

from conch.client import Client
from conch.wire.errors import AudioError, InvalidRequestError

FILES = [(f"{number}.wav", bytes([number]) * 1000) for number in range(3)]


@pytest.fixture
def running() -> Iterator[tuple[str, PlainServer]]:
    """Yield the URL of a gateway, and the server behind it."""
    with voice_gateway() as (gateway, server):
        yield gateway.url, server


def test_the_client_fits_shows_stops_and_removes_a_voice(running: tuple[str, PlainServer]) -> None:
    url, server = running
    with Client(url) as client:
        begun = client.fit_voice("Ann Lee", FILES, minutes=7, consent=("said.wav", b"yes"))
        assert (begun.name, begun.status, begun.mix) == ("Ann Lee", "queued", "af_sky:1.00")
        ((name, files, minutes, consent),) = server.asked
        assert (name, files, minutes) == ("Ann Lee", FILES, 7)
        assert tuple(consent) == ("consent", b"yes")
        assert client.fitted_voice("Ann Lee") == begun
        assert client.fitted_voices() == [begun]
        ready = client.stop_fitting("Ann Lee")
        assert ready.status == "ready" and ready.curve == ((0, 0.25),)
        client.remove_voice("Ann Lee")
        assert client.fitted_voices() == []


def test_files_are_read_from_their_paths(running: tuple[str, PlainServer], tmp_path) -> None:
    paths = []
    for name, data in FILES:
        paths.append(tmp_path / name)
        paths[-1].write_bytes(data)
    url, server = running
    with Client(url) as client:
        client.fit_voice("Ann", paths)
        with pytest.raises(AudioError, match="no_such cannot be read: No such file"):
            client.fit_voice("Ann", [*paths, tmp_path / "no_such"])
    assert server.asked[0][1] == FILES


def test_wrong_requests_are_named(running: tuple[str, PlainServer]) -> None:
    url = f"{running[0]}/v1/audio/voices"
    files = [("audio_sample", file) for file in FILES]

    def error(**sent: Any) -> dict[str, Any]:
        answer = requests.post(url, **sent)
        assert answer.status_code in (400, 415), answer.text
        found: dict[str, Any] = answer.json()["error"]
        return found

    assert error(json={})["code"] == "unsupported_media_type"
    assert error(files=files, data={"name": "A", "speed": "2"})["param"] == "speed"
    assert error(files=files, data={"name": "A", "minutes": "ten"})["param"] == "minutes"
    none = error(files=[("consent", ("c", b"x"))], data={"name": "A"})
    assert none["param"] == "audio_sample" and "3 to 50 recordings" in none["message"]
    assert error(files=files[:1], data={"name": "A"})["code"] == "invalid_audio"
    assert error(files=[("file", FILES[0])], data={"name": "A"})["param"] == "audio_sample"
    # OpenAI's client sends lists so.
    listed = [("audio_sample[]", file) for file in FILES]
    assert requests.post(url, files=listed, data={"name": "A"}).json()["id"] == "A"


def test_a_voice_that_is_not_there_is_not_found(running: tuple[str, PlainServer]) -> None:
    url = f"{running[0]}/v1/audio/voices/Eve"
    for answer in (requests.get(url), requests.post(f"{url}/stop"), requests.delete(url)):
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "voice_not_found"


def test_a_server_that_fits_none_says_how() -> None:
    with voice_gateway(fits=False) as (gateway, _), Client(gateway.url) as client:
        with pytest.raises(InvalidRequestError, match="--voices-from-recordings"):
            client.fit_voice("Ann", FILES)
        assert client.fitted_voices() == []
        assert "fitted" not in requests.get(f"{gateway.url}/v1/audio/voices").json()
