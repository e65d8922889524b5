"""What `conch say` writes, and what it refuses before a server starts."""

import argparse
import os
import wave
from pathlib import Path

import numpy as np
import pytest
from aiohttp import web
from plain_gateway import PlainGateway
from refusals import Refused
from toy_piper import write_piper

from conch import families
from conch.audio.encoding import wav_header
from conch.cli import main, say
from conch.cli.arguments import UsageError
from conch.client import Speech
from conch.wire.errors import ConchError
from conch.wire.synthesis import Spoken, SynthesisOptions

NOTHING = np.zeros(0, np.float32)


def pieces(*audios: bytes):
    return iter([Speech(NOTHING, audio, Spoken(1.0, 24_000, "hibari")) for audio in audios])


@pytest.mark.parametrize(
    ("name", "format"),
    [("a.wav", "wav"), ("a.MP3", "mp3"), ("a.ogg", "opus"), ("a.raw", "pcm_s16"), ("-", "wav")],
)
def test_the_format_is_that_of_the_suffix(name: str, format: str) -> None:
    assert say.format_of(argparse.Namespace(o=name)) == format


def test_a_wav_file_has_its_size(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    say.saved(pieces(b"\x01\x00" * 10, b"\x02\x00" * 5), path, is_wav=True)
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnframes()) == (24_000, 15)
        assert file.readframes(15) == b"\x01\x00" * 10 + b"\x02\x00" * 5


@pytest.mark.parametrize("failure", [ConchError, KeyboardInterrupt])
def test_a_file_stays_if_not_all_is_spoken(tmp_path: Path, failure: type[BaseException]) -> None:
    def failing():
        yield from pieces(b"\x01\x00")
        raise failure

    path = tmp_path / "a.wav"
    path.write_bytes(b"kept")
    with pytest.raises(failure):
        say.saved(failing(), path, is_wav=True)
    assert path.read_bytes() == b"kept"
    assert os.listdir(tmp_path) == ["a.wav"]


def test_what_cannot_be_written_is_told_and_a_device_has_no_size(tmp_path: Path) -> None:
    with pytest.raises(ConchError, match=r"^-o .*/a\.wav cannot be written: .*directory"):
        say.saved(pieces(b"\x01\x00"), tmp_path / "none" / "a.wav", is_wav=True)
    assert say.saved(pieces(b"\x01\x00"), Path(os.devnull), is_wav=True).audio == b"\x01\x00"


def test_floats_are_written_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.f32"
    piece = Speech(np.array([0.5, -1], np.float32), b"", Spoken(1.0, 24_000, "hibari"))
    say.saved(iter([piece]), path, is_wav=False)
    assert np.fromfile(path, "<f4").tolist() == [0.5, -1.0]


def test_a_player_gets_the_samples_and_its_failure_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    player = tmp_path / "aplay"
    player.write_text(f"#!/bin/sh\ncat > {tmp_path}/heard\necho $@ > {tmp_path}/flags\n")
    player.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert say.installed_player() == str(player)
    say.played(pieces(b"abcd", b"ef"), str(player))
    assert (tmp_path / "heard").read_bytes() == b"abcdef"
    assert "-r 24000" in (tmp_path / "flags").read_text()
    player.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(ConchError, match="could not play the sound"):
        say.played(pieces(b"abcd", b"ef"), str(player))
    # One that somebody closes has not failed.
    player.write_text("#!/bin/sh\nexit 0\n")
    say.played(pieces(*[bytes(100_000)] * 8), str(player))


def test_the_text_of_stdin_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader) as stdin, os.fdopen(writer, "wb", buffering=0) as pipe:
        monkeypatch.setattr("sys.stdin", stdin)
        texts = say.texts_of_stdin()
        pipe.write("Grü".encode()[:3])
        assert next(texts) == "Gr"
        pipe.write("Grüße".encode()[3:])
        assert next(texts) == "üße"
        pipe.write(b"\xff")
        with pytest.raises(UsageError, match="the text takes UTF-8"):
            next(texts)


def test_a_wav_on_stdout_has_a_header_of_open_size(tmp_path: Path) -> None:
    with (tmp_path / "a.wav").open("wb+") as file:
        say.written(pieces(b"\x01\x00", b"\x02\x00"), file, is_wav=True)
        file.seek(0)
        assert file.read() == wav_header(24_000) + b"\x01\x00\x02\x00"


def test_without_a_player_a_file_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="-o FILE"):
        say.installed_player()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "a.foo"], "-o takes a file with the suffix of a format"),
        (["-o", "a.mp3", "--format", "wav"], "is of the format mp3, and --format is wav: leave"),
        (["-o", "a.wav", "--piper", "x", "--url", "http://x"], "--piper is for a server that"),
        (["-o", "a.wav", "--reference", os.devnull], "it is no file"),
        (["-o", "a.wav", "--speed", "9"], "option 'speed' takes a number from 0.25 to 4"),
        (["-o", "a.opus", "--sample-rate", "22050"], "with format opus"),
        (["-o", "a.wav", "--url", "ftp://x"], "ftp"),
        (["-o", "no/such/a.wav"], "not a file in a folder that exists"),
    ],
)
def test_wrong_usage_starts_no_server(arguments: list[str], said: str, refused: Refused) -> None:
    assert said in refused("say", "Hello.", *arguments)


def test_the_voices_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["voices"]) == 0
    assert capsys.readouterr().out.startswith("hibari       en-US  American English, female")


def test_the_voices_of_a_gateway_are_listed(
    capsys: pytest.CaptureFixture[str], refused: Refused
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        voice = {"id": "joe", "name": "joe", "language": "en-US", "description": "male"}
        return web.json_response({"object": "list", "voices": [voice]})

    with PlainGateway() as gateway:
        gateway.answers["/v1/audio/voices"] = answer
        assert main(["voices", "--url", gateway.url]) == 0
    assert capsys.readouterr().out == "joe          en-US  male\n"
    said = refused("voices", "--url", "grpc://127.0.0.1:1")
    assert "that of a gateway, which lists voices" in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--url", "http://x"], "--piper lists voices of this machine, and --url those"),
        (["like", __file__], "like mixes Kokoro's voices: leave out --piper"),
    ],
)
def test_voices_of_piper_are_those_of_this_machine(
    more: list[str], said: str, refused: Refused
) -> None:
    assert said in refused("voices", "--piper", "x", *more)


def test_the_voices_of_a_folder_of_piper_speak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def server_for_voice(url: object, options: SynthesisOptions, weights: object) -> None:
        asked.append((options.voice, weights))
        raise ConchError("not in this test")

    monkeypatch.setattr(families, "_ADDED", {})
    monkeypatch.setattr(say, "server_for_voice", server_for_voice)
    write_piper(tmp_path)
    assert main(["voices", "--piper", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("toy          en-US  a voice of Piper\nhibari ")
    assert main(["say", "-o", str(tmp_path / "a.wav"), "Hi.", "--piper", str(tmp_path)]) == 1
    assert asked == [("toy", {"piper": str(tmp_path)})]
