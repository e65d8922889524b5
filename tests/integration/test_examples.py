"""Every example runs as its docstring says, against a real server."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from conch_command import called
from recordings import Recording

from conch.client import Client

pytestmark = pytest.mark.server

EXAMPLES = Path(__file__).parents[2] / "examples"
MAX_LINES = 60


def run(name: str, *arguments: object) -> str:
    done = called(EXAMPLES / name, *arguments, main=run_script)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def run_script(command: list[str]) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", command)
        runpy.run_path(command[0], run_name="__main__")
    return 0


@pytest.fixture(scope="module")
def text(server: Any, speech_wav: Path) -> str:
    with Client(f"grpc://{server.grpc_url}") as client:
        return client.transcribe(speech_wav).text


def test_http_transcribe(server: Any, speech_wav: Path, text: str) -> None:
    first, *words = run("http_transcribe.py", speech_wav, "--url", server.http_url).splitlines()
    assert first == text
    assert [word.split()[-1] for word in words] == text.split()


def test_grpc_async_many_files(server: Any, speech_wav: Path, text: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.wav"
    bad.write_text("this is a text file")
    url = f"grpc://{server.grpc_url}"
    lines = run("grpc_async_many_files.py", speech_wav, bad, speech_wav, "--url", url).splitlines()
    assert lines[0] == lines[2] == f"{speech_wav}\t{text}"
    assert lines[1].startswith(f"{bad}\tfailed: AUDIO cannot be decoded")


def test_rescoring(server: Any, speech_wav: Path) -> None:
    off, on = run("rescoring.py", speech_wav, "--url", server.http_url).split("\n\n")
    assert off.splitlines()[0] == "off: vad -> moonshine_encoder -> moonshine_decoder"
    with Client(server.http_url) as client:
        assert off.splitlines()[1].endswith(client.transcribe(speech_wav, nbest=5).text)
    assert on.splitlines()[0].endswith("-> neural_rescorer")
    for line in on.splitlines()[2:]:
        score, am, lm, words = (float(item) for item in line.replace("=", " ").split()[:4])
        assert score == pytest.approx(am + 0.15 * lm + 0.5 * words, abs=2e-3)


def test_long_file_to_srt(server: Any, speech_wav: Path, text: str, tmp_path: Path) -> None:
    copy = tmp_path / "lecture.wav"
    shutil.copy(speech_wav, copy)
    printed = run("long_file_to_srt.py", copy, "--url", f"grpc://{server.grpc_url}")
    assert printed.startswith(f"{copy.with_suffix('.srt')}: 3 s of audio in ")
    lines = copy.with_suffix(".srt").read_text().splitlines()
    spoken = [line for line in lines if line and not line.isdigit() and "-->" not in line]
    assert " ".join(spoken).split() == text.split()


def test_stream_long_file(server: Any, speech_wav: Path, text: str) -> None:
    url = f"grpc://{server.grpc_url}"
    *segments, figures = run("stream_long_file.py", speech_wav, "--url", url).splitlines()
    assert " ".join(line.split("  ")[-1] for line in segments) == text
    assert all(line.startswith("  0:0") for line in segments)
    assert figures.startswith(f"{len(segments)} segments, 3 s of audio in ")


def test_live_captions(server: Any, speech_wav: Path, waveform: np.ndarray) -> None:
    url = f"grpc://{server.grpc_url}"
    command = [sys.executable, str(EXAMPLES / "live_captions.py"), str(speech_wav), "--url", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    with Client(url) as client, client.live() as stream:
        final = stream.finish(waveform)
    *lines, rest = done.stdout.split("\n")
    clear = "\x1b[1G\x1b[0m\x1b[K"
    assert [line.rpartition(clear)[-1] for line in lines] == [
        segment.text for segment in final.segments
    ]
    assert rest == clear


def test_conversation(server: Any, recordings: list[Recording], tmp_path: Path) -> None:
    # Somebody speaks, and again while the answer is heard.
    path, heard, pause = tmp_path / "talk.wav", tmp_path / "heard", np.zeros(24_000, np.float32)
    one, two = (recordings[number].waveform()[:24_000] for number in (4, 0))
    soundfile.write(path, np.concatenate([one, pause, two, pause]), 16_000)
    url = f"grpc://{server.grpc_url}"
    printed = run("conversation.py", path, "--url", url, "--play", f"cat >> {heard}")
    first, interrupted, second, said = printed.splitlines()
    assert "president" in first.lower() and "nobody" in second.lower()
    assert (interrupted, said) == ("(interrupted)", "(said)")
    samples = np.frombuffer(heard.read_bytes(), "<i2") / np.float32(32_768)
    with Client(url) as client:
        text = client.transcribe(samples, sample_rate=24_000).text.lower()
    assert text.count("what shall i do") == 1 and "nobody" in text


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(server: Any, speech_wav: Path, text: str) -> None:
    def said_of(path: Path | str) -> "subprocess.CompletedProcess[str]":
        command = [EXAMPLES / "curl.sh", path, "--url", f"http://{server.http_url}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    done, failed = said_of(speech_wav), said_of(__file__)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{text}\n", "")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "AUDIO cannot be decoded" in failed.stderr


def test_every_example_is_short_and_tested() -> None:
    tests = Path(__file__).read_text()
    for path in EXAMPLES.iterdir():
        if path.suffix in (".py", ".sh"):
            assert len(path.read_text().splitlines()) <= MAX_LINES, path
            assert f'"{path.name}"' in tests, path
