import io
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from conch.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def stderr_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    # In the test and not in a fixture: between the two pytest puts a stderr of its own in place.
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def audio(path: Path, seconds: float) -> str:
    soundfile.write(path, np.zeros(int(seconds * 8000)), 8000)
    return str(path)


def shown(progress: Progress) -> str:
    """What the terminal would show now."""
    return str(progress._bar)


def test_the_bar_of_a_long_file_is_in_audio_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = stderr_is_a_terminal(monkeypatch)
    name = audio(tmp_path / "talk.wav", 120)
    with Progress([name], can_stream=True) as progress:
        file = progress.file(name)
        assert file.is_streamed
        file.reached(30)
        assert shown(progress).startswith("talk.wav:  25%|")
        assert "| 00:30/02:00 [00:00<00:0" in shown(progress)
        file.reached(120.02)
        assert "| 02:00/02:00 [" in shown(progress)
        file.done()
        assert "| 02:00/02:00 [" in shown(progress)
    assert "talk.wav" in terminal.getvalue()


def test_the_bar_of_several_files_is_in_the_audio_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr_is_a_terminal(monkeypatch)
    long, short = audio(tmp_path / "long.wav", 90), audio(tmp_path / "short.wav", 10)
    unknown = tmp_path / "not-audio.wav"
    unknown.write_text("this is a text file")
    names = [long, short, long, str(unknown), "-"]
    with Progress(names, can_stream=True) as progress:
        files = [progress.file(name) for name in names]
        assert [file.is_streamed for file in files] == [True, False, True, False, False]
        assert shown(progress).startswith("0/5 files:   0%|")
        assert "| 00:00/03:10 [" in shown(progress)
        files[1].done()
        files[3].done()
        files[2].reached(85)
        assert shown(progress).startswith("2/5 files:  50%|")
        assert "| 01:35/03:10 [" in shown(progress)
        for index in (0, 2, 4):
            files[index].done()
        assert shown(progress).startswith("5/5 files: 100%|")


@pytest.mark.parametrize(("can_stream", "seconds"), [(True, 59.0), (False, 120.0)])
def test_without_a_stream_there_is_a_clock(
    can_stream: bool, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr_is_a_terminal(monkeypatch)
    name = audio(tmp_path / "talk.wav", seconds)
    with Progress([name], can_stream=can_stream) as progress:
        file = progress.file(name)
        assert not file.is_streamed
        length = f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
        assert shown(progress) == f"talk.wav ({length} of audio): 00:00"
        file.done()
    with Progress(["-"], can_stream=can_stream) as progress:
        assert shown(progress) == "stdin: 00:00"


def test_short_files_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr_is_a_terminal(monkeypatch)
    names = [audio(tmp_path / f"{number}.wav", 10) for number in range(4)]
    with Progress(names, can_stream=True) as progress:
        progress.file(names[0]).done()
        assert " 25%|" in shown(progress)
        assert "| 1/4 [" in shown(progress)


def test_nothing_is_shown_or_streamed_where_nobody_looks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = audio(tmp_path / "talk.wav", 120)
    with Progress([name], can_stream=True) as progress:
        file = progress.file(name)
        assert not file.is_streamed
        file.done()
    assert capsys.readouterr() == ("", "")
