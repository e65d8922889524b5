"""`conch stream` as a person runs it, on the server of the tests."""

import codecs
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
import soundfile
import soxr
from conch_command import CONCH, called, conch
from recordings import in_turn, wer
from screen import Screen, set_size

from conch.cli.captions import CLEAR, NEWEST

pytestmark = pytest.mark.server


def stream(server, *arguments: object) -> tuple[object, ...]:
    """Return the arguments of the command."""
    return "stream", "--url", f"grpc://{server.grpc_url}", *arguments


def test_a_file_as_fast_as_it_goes_and_each_utterance_on_a_line(server, recordings):
    done = conch(*stream(server, recordings[0].path, "--speed", 0, "--mode", "two_pass"))
    assert done.returncode == 0, done.stderr
    assert wer(recordings[0].text, done.stdout) < 0.2
    assert done.stdout.count("\r") == 0, "no line that is written over where nobody looks"


def test_raw_samples_from_a_pipe_with_every_answer_as_json(server, recordings):
    samples = (recordings[4].waveform() * 32767).astype("<i2")
    stereo = np.repeat(samples, 2).tobytes()
    arguments = stream(server, "-", "--channels", 2, "--json", "--nbest", 1)
    done = conch(*arguments, stdin=stereo + b"\0")
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [item["is_final"] for item in answers] == [False] * (len(answers) - 1) + [True]
    assert answers[-1]["duration"] == pytest.approx(len(samples) / 16_000, abs=0.01)
    assert answers[-1]["text"]


@pytest.mark.parametrize("is_piped", [False, True])
@pytest.mark.parametrize("format", ["WAV", "MP3"])
def test_a_container_on_stdin_is_recognised(server, recordings, tmp_path, format, is_piped):
    path = tmp_path / "speech"
    samples = soxr.resample(recordings[4].waveform(), 16_000, 44_100)
    soundfile.write(path, np.stack([samples, samples], axis=1), 44_100, format=format)
    arguments = stream(server, "-", "--json")
    if is_piped:
        pytest.importorskip("av")
        done = conch(*arguments, stdin=path.read_bytes())
    else:
        command = [*CONCH, *map(str, arguments)]
        with path.open() as file:
            done = subprocess.run(command, stdin=file, capture_output=True, text=True, timeout=150)
    assert (done.returncode, done.stderr) == (0, "")
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["duration"] == pytest.approx(len(samples) / 44_100, abs=0.1)
    assert wer(recordings[4].text, last["text"]) < 0.5
    assert [segment["text"] for segment in last["segments"]] == [last["text"]]


def test_ctrl_c_writes_what_was_still_to_come(server, recordings):
    with subprocess.Popen(
        [*CONCH, *stream(server, str(recordings[0].path), "--json")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as streaming:
        assert streaming.stdout is not None
        for line in streaming.stdout:
            if json.loads(line)["text"]:
                break
        streaming.send_signal(signal.SIGINT)
        *_, last = streaming.stdout.read().splitlines()
        assert streaming.wait(30) == 130
    answer = json.loads(last)
    assert answer["is_final"]
    assert 0 < answer["duration"] < len(recordings[0].waveform()) / 16_000


def test_a_pipe_that_pauses_gets_its_line_and_ctrl_c_ends_it(server, recordings):
    samples = (recordings[0].waveform() * 32767).astype("<i2")[: round(3.95 * 16_000)]
    with subprocess.Popen(
        [*CONCH, *stream(server, "-", "--endpoint-silence-ms", "500")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as streaming:
        assert streaming.stdin is not None
        assert streaming.stdout is not None
        for _ in range(2):
            streaming.stdin.write(samples.tobytes())
            streaming.stdin.flush()
            assert wer(recordings[0].text, streaming.stdout.readline().decode()) < 0.2
        streaming.send_signal(signal.SIGINT)
        assert streaming.wait(30) == 0
        assert streaming.stderr is not None
        assert (streaming.stdout.read(), streaming.stderr.read()) == (b"", b"")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "name a file, or - for stdin, or --mic"),
        (["a.wav", "--mic"], 2, "name a file, or - for stdin, or --mic"),
        (["no-such.wav"], 1, "no-such.wav cannot be read"),
        (
            ["a.wav", "--mode", "offline"],
            2,
            "argument --mode: invalid choice: 'offline'",
        ),
        (["a.wav", "--speed", "-1"], 2, "a number from 0 to 1000"),
        (["a.wav", "--raw"], 2, "--raw goes with - (stdin)"),
        ([__file__], 1, "found text that begins with"),
        (["-"], 1, "stdin is empty: no audio came"),
    ],
)
def test_wrong_usage_is_said(server, arguments, code, message, monkeypatch):
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        done = called(*stream(server, *arguments))
    assert done.returncode == code
    assert message in done.stderr


@contextmanager
def on_a_terminal(
    columns: int, *arguments: object, **environment: str
) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Run a command with its standard output on a terminal; yield it and our end of that."""
    ours, theirs = pty.openpty()
    set_size(ours, columns)
    variables = {name: os.environ[name] for name in os.environ if name != "NO_COLOR"}
    variables |= {"TERM": "xterm", **environment}
    command = [*CONCH, *map(str, arguments)]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=variables) as running:
        os.close(theirs)
        yield running, ours
    os.close(ours)


def written(terminal: int) -> Iterator[str]:
    """Yield what comes to a terminal until the program ends."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            return
        yield decoder.decode(data)


def final_lines(server, path, mode: str) -> list[str]:
    done = called(*stream(server, path, "--speed", 0, "--mode", mode))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def talk(recordings, tmp_path_factory):
    """Return a file of two utterances."""
    path = tmp_path_factory.mktemp("talk") / "talk.wav"
    soundfile.write(path, in_turn([recordings[0], recordings[4]], 1.5), 16_000)
    return path


@pytest.mark.parametrize("mode", ["two_pass", "streaming"])
def test_a_terminal_shows_what_is_spoken_and_ends_with_the_final_lines(server, talk, mode):
    expected = final_lines(server, talk, mode)
    assert len(expected) == 2
    screen, views, cuts = Screen(50), [], []
    arguments = stream(server, talk, "--speed", 3, "--mode", mode)
    with on_a_terminal(50, *arguments) as (running, terminal):
        for text in written(terminal):
            screen.feed(text)
            assert "" not in screen.rows, "an empty line"
            if screen.rows in views[-1:]:
                continue
            views.append(screen.rows)
            # A space at the cut is left out.
            if len(screen.rows) == 1 and screen.columns - len(screen.rows[0]) in (1, 2):
                cuts.append(screen.columns)
                set_size(terminal, 30)
                screen.resize(30)
        assert (running.wait(30), running.stderr.read()) == (0, b"")
    assert len(views) > 10
    assert "".join(screen.rows) == "".join(expected), "each final line once, and no debris"
    assert cuts[0] == 50 and 30 in cuts, "cut to the width"


def test_a_terminal_is_written_only_when_something_changes(server, talk):
    with on_a_terminal(500, *stream(server, talk, "--speed", 4, "--chunk-ms", 50)) as (
        running,
        terminal,
    ):
        drawn = "".join(written(terminal)).split(CLEAR)
        assert running.wait(30) == 0
    assert len(drawn) > 10
    assert all(one != other for one, other in pairwise(drawn))


@pytest.mark.parametrize(
    ("environment", "is_shaded"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_shades_are_where_they_are_wanted(server, recordings, environment, is_shaded):
    arguments = stream(server, recordings[0].path, "--speed", 0)
    with on_a_terminal(80, *arguments, **environment) as (running, terminal):
        text = "".join(written(terminal))
        assert running.wait(30) == 0
    assert (NEWEST in text) == is_shaded
    assert ("\x1b" in text) == ("TERM" not in environment)
