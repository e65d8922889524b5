"""Audio for a live stream, out of files and standard input."""

import builtins
import io
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from audio_files import audio_file

from conch.cli import live_audio
from conch.packaged import install
from conch.wire.errors import AudioError


class Pipe(io.BytesIO):
    """Data that comes as it is read; it is not seekable."""

    def seekable(self) -> bool:
        return False


Reading = Callable[..., live_audio.AudioSource]


@pytest.fixture
def of_stdin(monkeypatch: pytest.MonkeyPatch) -> Reading:
    """Return a function that reads standard input, which holds what it is given."""

    def of_stdin(
        file: bytes | io.BytesIO, *settings: int, is_raw: bool = False
    ) -> live_audio.AudioSource:
        file = Pipe(file) if isinstance(file, bytes) else file
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(file)))
        return live_audio.of_stdin(*settings, is_raw=is_raw)

    return of_stdin


@pytest.mark.parametrize("is_raw", [False, True])
def test_raw_samples_are_taken_as_they_are(is_raw: bool, of_stdin: Reading) -> None:
    samples = np.arange(-500, 500, dtype="<i2")
    audio = of_stdin(samples.tobytes() + b"\0", 8000, 1, 20, is_raw=is_raw)
    assert audio.sample_rate == 8000
    chunks = list(audio.chunks)
    assert max(map(len, chunks)) <= 160
    assert np.array_equal(np.concatenate(chunks), samples)


def test_raw_channels_are_mixed(of_stdin: Reading) -> None:
    samples = np.repeat(np.array([[100, 300]], "<i2"), 50, axis=0)
    audio = of_stdin(samples.tobytes(), 8000, 2, 20)
    assert set(np.concatenate(list(audio.chunks)).tolist()) == {200}


def wav(rate: int) -> bytes:
    return audio_file(np.full((rate, 2), [0.5, 0.0]), rate)


@pytest.mark.parametrize("kind", [io.BytesIO, Pipe])
def test_a_wav_has_its_own_rate_and_no_header_in_it(
    kind: type[io.BytesIO], of_stdin: Reading
) -> None:
    if kind is Pipe:
        pytest.importorskip("av")
    audio = of_stdin(kind(wav(22_050)), 16_000, 1, 100)
    chunks = list(audio.chunks)
    assert audio.sample_rate == 22_050
    assert [len(chunk) for chunk in chunks] == [2205] * 10
    assert np.allclose(np.concatenate(chunks), 0.25, atol=1e-3)


def test_a_wav_may_be_taken_for_raw_samples(of_stdin: Reading) -> None:
    audio = of_stdin(wav(8000), 16_000, 1, 100, is_raw=True)
    assert audio.sample_rate == 16_000
    assert len(np.concatenate(list(audio.chunks))) == 16_000 + 22


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "stdin is empty: no audio came"),
        (b"hello\n", "stdin is text, not audio; --raw reads it as samples anyway"),
    ],
)
def test_no_audio_is_refused(data: bytes, message: str, of_stdin: Reading) -> None:
    with pytest.raises(AudioError) as refused:
        of_stdin(data, 16_000, 1, 100)
    assert str(refused.value) == message


def test_a_file_comes_when_it_would_have_been_spoken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav(8000))
    now = [100.0]
    clock = live_audio.time  # type: ignore[attr-defined]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    monkeypatch.setattr(clock, "sleep", lambda seconds: now.append(now.pop() + seconds))
    chunks = [(len(chunk), now[0] - 100) for chunk in live_audio.of_file(path, 250, 2.0).chunks]
    assert chunks == [(2000, pytest.approx(at)) for at in (0.125, 0.25, 0.375, 0.5)]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.wav", "cannot be read: No such file or directory"),
        ("", "cannot be read: Is a directory"),
        ("notes.wav", "found text that begins with"),
    ],
)
def test_a_file_that_is_no_audio(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "notes.wav").write_text("some notes")
    with pytest.raises(AudioError, match=message):
        live_audio.of_file(tmp_path / name, 200, 1.0)


def test_a_named_pipe_is_for_stdin() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    with pytest.raises(AudioError, match=r"is a pipe: conch stream - reads one from stdin"):
        live_audio.of_file(Path(f"/dev/fd/{reading}"), 200, 1.0)
    os.close(reading)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (
            ImportError("no sounddevice"),
            rf"sounddevice; {re.escape(install('mic'))}; .* apt-get install libportaudio2",
        ),
        (OSError("PortAudio library not found"), "PortAudio: apt-get install libportaudio2"),
    ],
)
def test_what_a_microphone_needs_is_said(
    error: Exception, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = builtins.__import__

    def failing(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        if name == "sounddevice":
            raise error
        return imported(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", failing)
    with pytest.raises(AudioError, match=f"^--mic needs .*{advice}"):
        live_audio.of_microphone(16_000, 100)
