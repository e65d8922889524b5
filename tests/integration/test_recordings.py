"""Recordings as people have them, on a real server."""

from pathlib import Path

import numpy as np
import pytest
from conch_command import called
from containers import muxed
from recordings import wer

from conch.client import Client, joined_parts

pytestmark = pytest.mark.server

RATE = 16_000
PAUSE = np.zeros(3 * RATE, np.float32)


@pytest.fixture(scope="module")
def call(recordings) -> np.ndarray:
    """Return two people taking turns on two channels: samples [frames, 2]."""
    turns = [recording.waveform() for recording in recordings[:4]]
    silent = [np.zeros_like(turn) for turn in turns]
    caller = [turns[0], PAUSE, silent[1], PAUSE, turns[2], PAUSE, silent[3]]
    called = [silent[0], PAUSE, turns[1], PAUSE, silent[2], PAUSE, turns[3]]
    return np.stack([np.concatenate(caller), np.concatenate(called)], axis=1)


@pytest.mark.parametrize(
    ("container", "codec", "options"),
    [
        ("ipod", "aac", {"file_rate": 44_100}),
        ("webm", "libopus", {"file_rate": 48_000}),
        ("matroska", "aac", {"video": True}),
        ("asf", "wmav2", {"file_rate": 44_100, "bit_rate": 64_000}),
        ("amr", "libopencore_amrnb", {"file_rate": 8_000, "bit_rate": 12_200}),
    ],
    ids=["m4a", "webm", "film", "wma", "amr"],
)
def test_what_libsndfile_does_not_read_is_transcribed(
    server, recordings, container, codec, options
):
    recording = recordings[4]
    data = muxed(recording.waveform(), RATE, container, codec, **options)
    with Client(server.http_url) as client:
        transcript = client.transcribe(data)
    assert wer(recording.text, transcript.text) < 0.25
    assert transcript.warnings == ()


def test_a_call_is_split_by_its_channels(server, recordings, call):
    data = muxed(call, RATE, "ipod", "aac", file_rate=44_100)
    with Client(f"grpc://{server.grpc_url}") as client:
        whole = client.transcribe(data, channels="split")
        parts = list(client.stream(data, channels="split"))
        second = client.transcribe(data, channels=2)
    assert [segment.channel for segment in whole.segments] == [1, 2, 1, 2]
    assert [channel.number for channel in whole.channels] == [1, 2]
    for channel, turns in zip(whole.channels, (recordings[:4:2], recordings[1:4:2]), strict=True):
        assert wer(" ".join(turn.text for turn in turns), channel.text) < 0.15
    assert second.text == whole.channels[1].text
    joined = joined_parts(parts)
    assert (joined.text, joined.channels) == (whole.text, whole.channels)
    assert joined.duration == whole.duration == pytest.approx(len(call) / RATE, abs=0.1)


def test_half_a_file_is_transcribed_as_far_as_it_goes(server, recordings):
    data = muxed(recordings[-1].waveform(), RATE, "mp4", "aac", movflags="faststart")
    with Client(server.http_url) as client:
        transcript = client.transcribe(data[: len(data) // 2])
    assert len(transcript.text.split()) > 8
    assert len(transcript.warnings) == 1
    assert transcript.warnings[0].startswith("the file is cut off: ")


def test_the_command_writes_turns_and_warnings(server, call, tmp_path: Path):
    path = tmp_path / "call.m4a"
    path.write_bytes(muxed(call * np.array([1, -1e-3]), RATE, "ipod", "aac"))
    done = called("transcribe", path, "--channels", "split", "--url", server.http_url)
    assert done.returncode == 0
    assert done.stdout.startswith("[1] ")
    (warning,) = done.stderr.splitlines()
    assert warning.startswith(f"conch: {path}: warning: channel 2 is very quiet: ")
