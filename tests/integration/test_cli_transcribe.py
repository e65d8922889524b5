"""`conch transcribe` and `conch demo`, as a user starts them."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from recordings import Recording
from waiting import wait_until

from conch.wire.result import Transcript

pytestmark = pytest.mark.server

# A shell without job control has its background jobs ignore Ctrl-C, and so would the command.
LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
CONCH = [
    sys.executable,
    "-c",
    f"import sys; from conch.cli import main; {LISTEN}; sys.exit(main())",
]


def conch(
    *arguments: object, stdin: bytes | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*CONCH, *map(str, arguments)], input=stdin, capture_output=True, cwd=cwd, timeout=150
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


@pytest.fixture
def url(server: Any) -> str:
    return f"grpc://{server.grpc_url}"


@pytest.fixture
def text(url: str, speech_wav: Path) -> str:
    done = conch("transcribe", speech_wav, "--url", url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert len(done.stdout.split()) > 10
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
    done = conch("transcribe", path, "--url", url)
    assert done.returncode == 0
    assert len(set(done.stdout.lower().split()) & set(text.lower().split())) >= 4


def test_json_reads_back_and_options_arrive(url: str, speech_wav: Path) -> None:
    done = conch(
        "transcribe", speech_wav, "--url", url, "--format", "json", "--rescore", "--nbest", 3,
        "--rescorer", "ngram", "--lm-weight", 0.5, "--no-vad",
    )  # fmt: skip
    assert json.loads(done.stdout)["file"] == str(speech_wav)
    transcript = Transcript.from_json(done.stdout)
    assert len(transcript.nbest) == 3
    assert len(json.loads(done.stdout)["alternatives"]) == 2
    assert transcript.path == ("attention_encoder", "attention_decoder", "rescorer")


def test_json_of_several_files_is_a_line_for_each(url: str, speech_wav: Path, text: str) -> None:
    done = conch("transcribe", speech_wav, speech_wav, "--url", url, "--format", "json")
    assert [json.loads(line)["text"] for line in done.stdout.splitlines()] == [text.strip()] * 2


@pytest.mark.parametrize("format", ["srt", "vtt"])
def test_subtitles_have_word_times(
    format: str, url: str, speech_wav: Path, text: str, tmp_path: Path
) -> None:
    output = tmp_path / f"subtitles.{format}"
    output.write_text("from before")
    done = conch("transcribe", speech_wav, "--url", url, "--format", format, "-o", output)
    assert (done.returncode, done.stdout) == (0, "")
    lines = output.read_text().splitlines()
    times = [line for line in lines if "-->" in line]
    spoken = [line for line in lines if line and "-->" not in line and not line.isdigit()]
    assert len(times) > 1
    assert " ".join(spoken).removeprefix("WEBVTT ").split() == text.split()


def test_several_files_in_order_and_one_that_fails(
    url: str, speech_wav: Path, text: str, tmp_path: Path
) -> None:
    bad, missing = tmp_path / "bad.wav", tmp_path / "missing.wav"
    bad.write_text("this is a text file")
    done = conch("transcribe", speech_wav, bad, missing, tmp_path, speech_wav, "--url", url)
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


@pytest.fixture
def talk(recordings: list[Recording], tmp_path: Path) -> Path:
    """Return more than a minute of several segments."""
    pause = np.zeros(5 * 16000, np.float32)
    path = tmp_path / "talk.wav"
    parts = [part for item in recordings for part in (item.waveform(), pause)]
    soundfile.write(path, np.concatenate(parts), 16000)
    assert soundfile.info(path).duration > 60
    return path


def test_a_long_file_on_a_terminal_has_a_line_and_the_same_output(url: str, talk: Path) -> None:
    arguments = ("transcribe", talk, "--url", url, "--nbest", 3, "--word-timestamps")
    # A terminal of no columns: what `script` and `docker exec -t` give.
    stdout, stderr = conch_on_a_terminal(*arguments, columns=0)
    assert stdout == conch(*arguments).stdout
    assert re.search(r"talk\.wav  \d+%  0:\d\d of 1:\d\d  [\d.]+x real time  0:\d\d left", stderr)
    shares = [int(share) for share in re.findall(r"(\d+)%", stderr)]
    assert shares == sorted(shares)
    assert any(0 < share < 100 for share in shares)

    streamed, _ = conch_on_a_terminal(*arguments, "--format", "json")
    found = [json.loads(text) for text in (streamed, conch(*arguments, "--format", "json").stdout)]
    for transcript in found:
        for stage in transcript["stages"].values():
            del stage["ms"]
    assert found[0] == found[1]


def test_text_on_a_terminal_comes_segment_by_segment_and_once(url: str, talk: Path) -> None:
    arguments = ("transcribe", talk, talk, "--url", url)
    _, shown = conch_on_a_terminal(*arguments, has_stdout=True)
    data = json.loads(conch("transcribe", talk, "--url", url, "--format", "json").stdout)
    texts = [segment["text"] for segment in data["segments"]]
    assert len(texts) > 3
    assert shown.index(texts[0]) < shown.index("% ", shown.index(texts[0])), "before all is done"
    # What stays on the screen: each write over the last line begins with its removal.
    lines = re.sub(r"\r\x1b\[K[^\r\n]*(?=\r\x1b\[K)|\r\x1b\[K", "", shown).split("\r\n")
    assert lines == [f"==> {talk} <==", *texts, ""] * 2 + [""]


def test_json_on_a_terminal_is_indented(url: str, speech_wav: Path, text: str) -> None:
    arguments = ("transcribe", speech_wav, "--url", url, "--format", "json")
    _, shown = conch_on_a_terminal(*arguments, has_stdout=True)
    found = shown[shown.index("{") : shown.rindex("}") + 1]
    assert found.startswith('{\r\n  "file"')
    assert json.loads(found)["text"] == text.strip()


def test_long_and_short_files_on_a_terminal_share_a_line(
    url: str, talk: Path, speech_wav: Path
) -> None:
    arguments = ("transcribe", speech_wav, talk, speech_wav, "--url", url)
    stdout, stderr = conch_on_a_terminal(*arguments)
    assert stdout == conch(*arguments).stdout
    assert re.search(r"[012] of 3 files  \d+%  0:\d\d of 1:\d\d  ", stderr)


def test_a_terminal_and_http_is_a_clock(server: Any, talk: Path) -> None:
    arguments = ("transcribe", talk, "--url", server.http_url)
    stdout, stderr = conch_on_a_terminal(*arguments)
    assert stdout == conch(*arguments).stdout
    assert re.search(r"talk\.wav  1:\d\d of audio  0:00 waited  over http:// the text", stderr)


def test_an_output_folder_is_made(url: str, speech_wav: Path, text: str, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert conch("transcribe", speech_wav, "--url", url, "--output-dir", folder).stdout == ""
    assert (folder / f"{speech_wav.stem}.txt").read_text() == text


def test_without_url_it_has_a_server_of_its_own(speech_wav: Path, text: str) -> None:
    done = conch("transcribe", speech_wav)
    assert (done.returncode, done.stdout) == (0, text)
    assert "starting a server" in done.stderr
    assert "server ready" in done.stderr


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Return a mark in the environment of every process that this test starts."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv("CONCH_TEST_MARK", mark)
    return mark.encode()


def marked(mark: bytes) -> dict[int, str]:
    """Return the command lines of the living processes with a mark, without this one."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        # What ends meanwhile is not alive.
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes():
                found[int(entry.name)] = (entry / "cmdline").read_text()
    return found


def test_ctrl_c_ends_its_server_too(speech_wav: Path, tmp_path: Path, mark: bytes) -> None:
    samples, rate = soundfile.read(speech_wav, dtype="float32")
    long = tmp_path / "ten_minutes.wav"
    soundfile.write(long, np.tile(samples, 60), rate)
    with subprocess.Popen([*CONCH, "transcribe", long], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = b""
        while b"server ready" not in said:
            line = process.stderr.readline()
            assert line, f"ended without a server: {said.decode()}"
            said += line
        assert any("/tritonserver" in command for command in marked(mark).values())
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 130
    assert marked(mark) == {}


@pytest.mark.nightly
def test_its_server_heals_and_no_file_is_lost(
    speech_wav: Path, text: str, tmp_path: Path, mark: bytes
) -> None:
    files = [tmp_path / f"{number:02d}.wav" for number in range(12)]
    for file in files:
        file.symlink_to(speech_wav)
    out = tmp_path / "out"
    command = [*CONCH, "transcribe", *map(str, files), "--output-dir", str(out), "--jobs", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: len(list(out.glob("*"))) >= 2, timeout_s=120)
        stubs = [pid for pid, command in marked(mark).items() if "/speech/1/model.py" in command]
        # As the stub itself crashes, rarely, beside other requests.
        os.kill(stubs[0], signal.SIGSEGV)
        _, errors = process.communicate(timeout=150)
    assert process.returncode == 0, errors
    assert {path.read_text() for path in out.glob("*")} == {text}
    assert len(list(out.glob("*"))) == len(files)
    assert marked(mark) == {}


def test_demo(mark: bytes) -> None:
    done = conch("demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert marked(mark) == {}
    for part in ("accuracy=fast", "accuracy=best", "neural_rescorer", "total", "stopped"):
        assert part in done.stdout
    *_, page, curl = done.stdout.splitlines()
    assert "conch serve (make serve" in page and page.endswith(" http://127.0.0.1:9000")
    assert curl.endswith(" http://127.0.0.1:9000/v1/audio/transcriptions")
