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

from conch.cli.progress import Progress, figures_of
from conch.client.timeouts import timeout


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


@pytest.mark.parametrize(
    ("done_s", "total_s", "elapsed_s", "figures"),
    [
        (0, 1200, 2.5, ["0%", "0:00 of 20:00", "0:02 waited"]),
        (492, 1200, 21, ["41%", "8:12 of 20:00", "23x real time", "0:30 left"]),
        (4000, 8000, 1000, ["50%", "1:06:40 of 2:13:20", "4.0x real time", "16:40 left"]),
        (1200, 1200, 60, ["100%", "20:00 of 20:00", "20x real time", "0:00 left"]),
        (0, 0, 2, ["0:00 done", "0:02 waited"]),
        (90, 0, 3, ["1:30 done", "30x real time"]),
    ],
)
def test_figures(done_s: float, total_s: float, elapsed_s: float, figures: list[str]) -> None:
    assert figures_of(done_s, total_s, elapsed_s) == figures


def test_a_long_file_is_streamed_and_its_line_is_in_audio_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = stderr_is_a_terminal(monkeypatch)
    name = audio(tmp_path / "talk.wav", 120)
    with progress_of(name) as progress:
        file = progress.file(name)
        assert file.is_streamed
        file.reached(30)
        assert progress.text(3, 80) == "talk.wav  25%  0:30 of 2:00  10x real time  0:09 left"
        file.reached(120.02)
        assert progress.text(4, 80).startswith("talk.wav  100%  2:00 of 2:00  ")
        file.done()
        assert progress.text(4, 80).startswith("talk.wav  100%  2:00 of 2:00  ")
        shown = terminal.getvalue()
        assert "\r\x1b[Ktalk.wav  25%  0:30 of 2:00  " in shown
    assert terminal.getvalue() == shown + "\r\x1b[K", "the line is gone at the end"


def test_the_line_of_several_files_is_in_the_audio_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr_is_a_terminal(monkeypatch)
    long, short = audio(tmp_path / "long.wav", 90), audio(tmp_path / "short.wav", 30)
    unknown = tmp_path / "not-audio.wav"
    unknown.write_text("this is a text file")
    names = [long, short, long, str(unknown), "-"]
    with progress_of(*names, stdin=Path(short).read_bytes()) as progress:
        files = [progress.file(name) for name in names]
        # What cannot be measured may be long.
        assert [file.is_streamed for file in files] == [True, False, True, True, False]
        assert progress.text(0, 80).startswith("0 of 5 files  0%  0:00 of 4:00")
        files[1].done()
        files[3].done()
        files[2].reached(85)
        assert progress.text(1, 80).startswith("2 of 5 files  48%  1:55 of 4:00")
        for index in (0, 2, 4):
            files[index].done()
        assert progress.text(1, 80).startswith("5 of 5 files  100%")


def test_without_a_stream_there_is_a_clock_and_what_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr_is_a_terminal(monkeypatch)
    name = audio(tmp_path / "talk.wav", 120)
    with progress_of(name, can_stream=False) as progress:
        assert not progress.file(name).is_streamed
        assert progress.text(65, 80) == (
            "talk.wav  2:00 of audio  1:05 waited  over http:// the text comes as a whole"
        )


def test_a_long_name_leaves_room_for_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr_is_a_terminal(monkeypatch)
    name = audio(tmp_path / f"{'a' * 100}.wav", 60)
    with progress_of(name) as progress:
        assert progress.text(1, 80).startswith(f"{'a' * 19}…  0%  0:00 of 1:00")


def test_a_terminal_that_does_not_tell_its_width_shows_the_line(tmp_path: Path) -> None:
    name = audio(tmp_path / "talk.wav", 120)
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, bytes(8))
    with os.fdopen(terminal, "w") as stderr, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        with progress_of(name) as progress:
            progress.file(name).reached(30)
            assert b"talk.wav  25%  0:30 of 2:00" in os.read(ours, 4096)
    os.close(ours)


def test_text_and_line_do_not_garble_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = stderr_is_a_terminal(monkeypatch)
    name = audio(tmp_path / "talk.wav", 120)
    with progress_of(name) as progress:
        progress.show()
        progress.write("some text\n", terminal)
        line = r"\r\x1b\[Ktalk\.wav  0%[^\r]*"
        assert re.fullmatch(rf"{line}\r\x1b\[Ksome text\n{line}", terminal.getvalue())


def test_the_clock_ticks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = stderr_is_a_terminal(monkeypatch)
    name = audio(tmp_path / "talk.wav", 120)

    async def tick() -> None:
        with progress_of(name) as progress:
            ticking = asyncio.create_task(progress.tick())
            async with timeout(20):
                while "0:01 waited" not in terminal.getvalue():
                    await asyncio.sleep(0.01)
            ticking.cancel()

    asyncio.run(tick())


def test_nothing_is_shown_or_streamed_where_nobody_looks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = audio(tmp_path / "talk.wav", 120)
    with progress_of(name) as progress:
        file = progress.file(name)
        assert not file.is_streamed
        file.done()
        progress.show()
    assert capsys.readouterr() == ("", "")


def test_text_on_a_terminal_is_streamed_without_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = audio(tmp_path / "talk.wav", 120)
    with progress_of(name, is_text_shown=True) as progress:
        assert progress.file(name).is_streamed
        progress.write("text\n", sys.stdout)
    assert capsys.readouterr() == ("text\n", "")
