"""`conch transcribe` on the server of the tests, as a user starts it."""

import contextlib
import json
import os
import pty
import re
import subprocess
import termios
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from conch_command import CONCH, called, conch
from recordings import Recording, in_turn

from conch.wire.formats import to_text
from conch.wire.result import Transcript

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def url(server: Any) -> str:
    return f"grpc://{server.grpc_url}"


@pytest.fixture(scope="module")
def text(url: str, speech_wav: Path) -> str:
    done = conch("transcribe", speech_wav, "--url", url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert "burning bright in the forest" in done.stdout
    return done.stdout


def test_http_and_stdin_give_the_same_text(server: Any, speech_wav: Path, text: str) -> None:
    assert conch("transcribe", speech_wav, "--url", server.http_url).stdout == text
    done = conch("transcribe", "-", "--url", server.http_url, stdin=speech_wav.read_bytes())
    assert (done.returncode, done.stdout, done.stderr) == (0, text, "")


@pytest.mark.parametrize(
    ("name", "rate", "channels"),
    [("a.flac", 16000, 1), ("b.ogg", 16000, 2), ("c.mp3", 44100, 2), ("d.wav", 8000, 1)],
)
def test_any_format_rate_and_number_of_channels(
    name: str, rate: int, channels: int, url: str, speech_wav: Path, text: str, tmp_path: Path
) -> None:
    samples, own_rate = soundfile.read(speech_wav, dtype="float32")
    samples = soxr.resample(samples, own_rate, rate)
    path = tmp_path / name
    soundfile.write(path, np.stack([samples] * channels, axis=1), rate)
    done = called("transcribe", path, "--url", url)
    assert done.returncode == 0
    assert len(set(done.stdout.lower().split()) & set(text.lower().split())) >= 4


def test_json_reads_back_and_options_arrive(url: str, speech_wav: Path) -> None:
    done = called(
        "transcribe", speech_wav, "--url", url, "--format", "json", "--rescore", "--nbest", 3,
        "--rescorer", "ngram", "--lm-weight", 0.5, "--no-vad",
    )  # fmt: skip
    assert json.loads(done.stdout)["file"] == str(speech_wav)
    transcript = Transcript.from_json(done.stdout)
    assert len(transcript.nbest) == 3
    assert len(json.loads(done.stdout)["alternatives"]) == 2
    assert transcript.path == ("moonshine_encoder", "moonshine_decoder", "rescorer")


def test_json_of_several_files_is_a_line_for_each(url: str, speech_wav: Path, text: str) -> None:
    done = called("transcribe", speech_wav, speech_wav, "--url", url, "--format", "json")
    assert [json.loads(line)["text"] for line in done.stdout.splitlines()] == [text.strip()] * 2


@pytest.fixture(scope="module")
def verses_text(url: str, verses_wav: Path) -> str:
    return called("transcribe", verses_wav, "--url", url).stdout


@pytest.mark.parametrize("format", ["srt", "vtt"])
def test_subtitles_have_word_times(
    format: str, url: str, verses_wav: Path, verses_text: str, tmp_path: Path
) -> None:
    output = tmp_path / f"subtitles.{format}"
    output.write_text("from before")
    done = called("transcribe", verses_wav, "--url", url, "--format", format, "-o", output)
    assert (done.returncode, done.stdout) == (0, "")
    lines = output.read_text().splitlines()
    times = [line for line in lines if "-->" in line]
    spoken = [line for line in lines if line and "-->" not in line and not line.isdigit()]
    assert len(times) > 1
    assert " ".join(spoken).removeprefix("WEBVTT ").split() == verses_text.split()


def test_several_files_in_order_and_one_that_fails(
    url: str, speech_wav: Path, text: str, tmp_path: Path
) -> None:
    bad, missing = tmp_path / "bad.wav", tmp_path / "missing.wav"
    bad.write_text("this is a text file")
    done = called("transcribe", speech_wav, bad, missing, tmp_path, speech_wav, "--url", url)
    assert done.returncode == 1
    assert done.stdout == f"==> {speech_wav} <==\n{text}\n" * 2
    errors = done.stderr.splitlines()
    assert len(errors) == 3
    assert errors[0] == f"conch: {missing}: no such file"
    assert errors[1].startswith(f"conch: {tmp_path}: a folder")
    assert errors[2].startswith(f"conch: {bad}: AUDIO cannot be decoded")


def conch_on_a_terminal(
    *arguments: object, columns: int = 100, has_stdout: bool = False
) -> tuple[str, str]:
    """Run a command that succeeds with stderr on a terminal; return stdout and the terminal.

    With `has_stdout` the terminal has stdout, too, and nothing comes apart from it.
    """
    ours, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, columns))
    shown: list[bytes] = []

    def read() -> None:
        # Reading what no process holds open any more is an error on Linux, not an end.
        with contextlib.suppress(OSError):
            while data := os.read(ours, 65536):
                shown.append(data)

    with subprocess.Popen(
        [*CONCH, *map(str, arguments)],
        stdout=terminal if has_stdout else subprocess.PIPE,
        stderr=terminal,
    ) as process:
        os.close(terminal)
        reader = threading.Thread(target=read)
        reader.start()
        stdout, _ = process.communicate(timeout=150)
        reader.join()
    os.close(ours)
    assert process.returncode == 0
    return (stdout or b"").decode(), b"".join(shown).decode()


@pytest.fixture(scope="module")
def talk(recordings: list[Recording], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return four segments, of more than the half a minute from which their text is streamed."""
    path = tmp_path_factory.mktemp("talk") / "talk.wav"
    soundfile.write(path, in_turn(recordings[:4], 5), 16000)
    assert soundfile.info(path).duration > 40
    return path


@pytest.fixture(scope="module")
def whole(url: str, talk: Path) -> Any:
    """Return what JSON away from a terminal says of `talk`."""
    return json.loads(called("transcribe", talk, "--url", url, "--format", "json").stdout)


def in_paragraphs(whole: Any) -> str:
    """Return the text as a file has it, with its paragraphs."""
    text = to_text(Transcript.from_json(json.dumps(whole)))
    assert text.split() == whole["text"].split()
    return text


@pytest.mark.nightly
def test_a_long_file_on_a_terminal_has_a_line_and_the_same_output(url: str, talk: Path) -> None:
    arguments = ("transcribe", talk, "--url", url, "--nbest", 3, "--word-timestamps")
    # A terminal of no columns: what `script` and `docker exec -t` give.
    stdout, stderr = conch_on_a_terminal(*arguments, columns=0)
    assert stdout == conch(*arguments).stdout
    assert re.search(r"talk\.wav  \d+%\|.*\| 00:\d\d<00:\d\d, [\d.]+x real time", stderr)
    shares = [int(share) for share in re.findall(r"(\d+)%", stderr)]
    assert shares == sorted(shares)
    assert any(0 < share < 100 for share in shares)

    streamed, _ = conch_on_a_terminal(*arguments, "--format", "json")
    found = [json.loads(text) for text in (streamed, conch(*arguments, "--format", "json").stdout)]
    for transcript in found:
        for stage in transcript["stages"].values():
            del stage["ms"]
    assert found[0] == found[1]


def test_text_on_a_terminal_comes_segment_by_segment_and_once(
    url: str, talk: Path, whole: Any
) -> None:
    arguments = ("transcribe", talk, talk, "--url", url)
    _, shown = conch_on_a_terminal(*arguments, has_stdout=True)
    texts = [segment["text"] for segment in whole["segments"]]
    assert len(texts) > 3
    assert shown.index(texts[0]) < shown.index("%|", shown.index(texts[0])), "before all is done"
    # What stays on the screen: the bar is written over.
    lines = [line.rpartition("\r")[2] for line in shown.split("\r\n")]
    assert lines == [f"==> {talk} <==", *texts, ""] * 2 + [""]


def test_json_on_a_terminal_is_indented(url: str, speech_wav: Path, text: str) -> None:
    arguments = ("transcribe", speech_wav, "--url", url, "--format", "json")
    _, shown = conch_on_a_terminal(*arguments, has_stdout=True)
    found = shown[shown.index("{") : shown.rindex("}") + 1]
    assert found.startswith('{\r\n  "file"')
    assert json.loads(found)["text"] == text.strip()


def test_long_and_short_files_on_a_terminal_share_a_line(
    url: str, talk: Path, speech_wav: Path, text: str, whole: Any
) -> None:
    arguments = ("transcribe", speech_wav, talk, speech_wav, "--url", url)
    stdout, stderr = conch_on_a_terminal(*arguments)
    short = f"==> {speech_wav} <==\n{text}\n"
    assert stdout == f"{short}==> {talk} <==\n{in_paragraphs(whole)}\n{short}"
    assert re.search(r"[012] of 3 files  \d+%\|", stderr)


def test_a_terminal_and_http_is_a_clock(server: Any, talk: Path, whole: Any) -> None:
    stdout, stderr = conch_on_a_terminal("transcribe", talk, "--url", server.http_url)
    assert stdout == in_paragraphs(whole)
    assert re.search(r"talk\.wav  00:00, over http:// the text", stderr)


def test_an_output_folder_is_made(url: str, speech_wav: Path, text: str, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert called("transcribe", speech_wav, "--url", url, "--output-dir", folder).stdout == ""
    assert (folder / f"{speech_wav.stem}.txt").read_text() == text
