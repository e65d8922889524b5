import asyncio
import fcntl
import io
import os
import pty
import re
import sys
import termios
from pathlib import Path

import numpy as np
import pytest
import soundfile

from conch.cli.progress import Progress
from conch.client.aio import timeout


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def stderr_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    # In the test and not in a fixture: pytest replaces stderr between the two.
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def audio(path: Path, seconds: float) -> str:
    soundfile.write(path, np.zeros(int(seconds * 8000)), 8000)
    return str(path)


def progress_of(
    *names: str, stdin: bytes = b"", can_stream: bool = True, is_text_shown: bool = False
) -> Progress:
    return Progress(names, stdin, can_stream=can_stream, is_text_shown=is_text_shown)


def shown(terminal: Terminal) -> str:
    return terminal.getvalue().rpartition("\r")[2].rstrip()


def test_a_long_file_is_streamed_and_its_line_is_in_audio_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = stderr_is_a_terminal(monkeypatch)
    name = audio(tmp_path / "talk.wav", 120)
    progress = progress_of(name)
    assert terminal.getvalue() == "", "a server may have to start first"
    with progress:
        file = progress.file(name)
        assert file.is_streamed
        file.reached(30)
        assert re.match(r"talk\.wav  25%\|#####  .*x real time$", shown(terminal))
        file.reached(120.02)
        assert shown(terminal).startswith("talk.wav  100%|")
        file.done()
        assert shown(terminal).startswith("talk.wav  100%|")
    assert shown(terminal) == "", "the line is gone at the end"


def test_the_line_of_several_files_is_in_the_audio_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = stderr_is_a_terminal(monkeypatch)
    long, short = audio(tmp_path / "long.wav", 90), audio(tmp_path / "short.wav", 30)
    names = [long, short, long, "-"]
    with progress_of(*names, stdin=Path(short).read_bytes()) as progress:
        files = [progress.file(name) for name in names]
        assert [file.is_streamed for file in files] == [True, False, True, False]
        assert shown(terminal).startswith("0 of 4 files  0%")
        files[1].done()
        files[2].reached(90)
        assert shown(terminal).startswith("1 of 4 files  50%")
        for index in (0, 2, 3):
            files[index].done()
        assert shown(terminal).startswith("4 of 4 files  100%")


def test_what_cannot_be_measured_may_be_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = stderr_is_a_terminal(monkeypatch)
    unknown = tmp_path / "not-audio.wav"
    unknown.write_text("this is a text file")
    with progress_of(str(unknown)) as progress:
        assert progress.file(str(unknown)).is_streamed
        assert shown(terminal) == "not-audio.wav  00:00"


def test_without_a_stream_there_is_a_clock_and_what_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = stderr_is_a_terminal(monkeypatch)
    name = audio(tmp_path / "talk.wav", 120)
    with progress_of(name, can_stream=False) as progress:
        assert not progress.file(name).is_streamed
        assert shown(terminal) == "talk.wav  00:00, over http:// the text comes as a whole"


def test_a_long_name_leaves_room_for_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = stderr_is_a_terminal(monkeypatch)
    with progress_of(audio(tmp_path / f"{'a' * 100}.wav", 60)):
        assert shown(terminal).startswith(f"{'a' * 23}…  0%")


def test_a_terminal_that_does_not_tell_its_width_shows_the_line(tmp_path: Path) -> None:
    name = audio(tmp_path / "talk.wav", 120)
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, bytes(8))
    with os.fdopen(terminal, "w") as stderr, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        with progress_of(name) as progress:
            progress.file(name).reached(30)
            said = b""
            while b"talk.wav  25%" not in said:
                said += os.read(ours, 4096)
    os.close(ours)


def test_text_and_line_do_not_garble_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = stderr_is_a_terminal(monkeypatch)
    with progress_of(audio(tmp_path / "talk.wav", 120)) as progress:
        progress.write("some text\n", terminal)
        assert re.search(
            r"talk\.wav  0%[^\r]*\r +\rsome text\n\rtalk\.wav  0%", terminal.getvalue()
        )


async def test_the_clock_ticks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = stderr_is_a_terminal(monkeypatch)
    name = audio(tmp_path / "talk.wav", 120)
    with progress_of(name) as progress:
        ticking = asyncio.create_task(progress.tick())
        async with timeout(20):
            while "00:01" not in terminal.getvalue():
                await asyncio.sleep(0.01)
        ticking.cancel()


def test_nothing_is_shown_or_streamed_where_nobody_looks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = audio(tmp_path / "talk.wav", 120)
    with progress_of(name) as progress:
        file = progress.file(name)
        assert not file.is_streamed
        file.done()
    assert capsys.readouterr() == ("", "")


def test_text_on_a_terminal_is_streamed_without_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = audio(tmp_path / "talk.wav", 120)
    with progress_of(name, is_text_shown=True) as progress:
        assert progress.file(name).is_streamed
        progress.write("text\n", sys.stdout)
    assert capsys.readouterr() == ("text\n", "")
