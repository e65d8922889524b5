"""Frames of raw samples, of G.711 and of containers, as samples."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audio_files import cut
from containers import muxed
from waiting import wait_until

from conch.audio import intake
from conch.gateway import live_audio
from conch.gateway.live_audio import LiveFrames, RawDecoder, default_rate
from conch.wire.errors import AudioError

RATE = 16_000
TONE = (0.5 * np.sin(np.arange(3 * RATE) * 2 * np.pi * 440 / RATE)).astype(np.float32)


async def decoded(encoding: str, frames: list[bytes], rate: int = RATE) -> np.ndarray:
    """Return the samples of frames, and then of the end."""
    pieces = []
    async with LiveFrames(encoding, rate) as live:
        for number, frame in enumerate([*frames, b""]):
            async for samples in live.decoded(frame, ends=number == len(frames)):
                assert samples.dtype in (np.int16, np.float32)
                pieces.append(samples)
    wait_until(no_decoder_is_left)
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def no_decoder_is_left() -> bool:
    starter = intake._POOL._process
    if starter is None:
        return True
    children = Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text()
    return len(children.split()) <= len(intake._POOL._idle)


@pytest.fixture(autouse=True)
def frees_decoders() -> Iterator[None]:
    yield
    wait_until(no_decoder_is_left)


def g711_mulaw(code: int) -> int:
    """Return a sample by the decision values of ITU-T G.711 (11/88), table 2a: on 14 bits."""
    code ^= 0xFF
    segment, step = code >> 4 & 7, code & 15
    # y_0 = 0; each segment has 16 intervals, twice as wide as those before.
    value = (2 * step + 33) * 2**segment - 33
    return (-value if code & 0x80 else value) * 4


def g711_alaw(code: int) -> int:
    """Return a sample by the decision values of ITU-T G.711 (11/88), table 1a: on 13 bits."""
    code ^= 0x55
    segment, step = code >> 4 & 7, code & 15
    value = 2 * step + 1 if segment == 0 else (2 * step + 33) * 2 ** (segment - 1)
    return (value if code & 0x80 else -value) * 8


@pytest.mark.parametrize(("encoding", "formula"), [("mulaw", g711_mulaw), ("alaw", g711_alaw)])
def test_every_byte_of_g711_is_the_sample_of_the_standard(encoding: str, formula) -> None:
    result = RawDecoder(encoding).samples(bytes(range(256)))
    assert result.dtype == np.int16
    assert result.tolist() == [formula(code) for code in range(256)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("encoding", "dtype"), [("pcm16", "<i2"), ("auto", "<i2"), ("float32", "<f4")]
)
async def test_samples_may_be_cut_anywhere(encoding: str, dtype: str, seed: int) -> None:
    samples = TONE if dtype == "<f4" else (TONE * 32767).astype(dtype)
    result = await decoded(encoding, cut(samples.astype(dtype).tobytes(), seed, 999))
    assert result.dtype == np.dtype(dtype).newbyteorder("=")
    assert np.array_equal(result, samples)


async def test_the_rest_of_a_sample_at_the_end_is_left_out() -> None:
    assert (await decoded("pcm16", [b"\1\0\2"])).tolist() == [1]
    assert (await decoded("auto", [b"\1\0\2"])).tolist() == [1]
    assert (await decoded("auto", [])).tolist() == []


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_sample_that_is_not_finite_is_refused_and_the_next_frame_is_right(wrong: float) -> None:
    decoder = RawDecoder("float32")
    with pytest.raises(AudioError, match="the frame has samples that are NaN or infinite"):
        decoder.samples(np.array([0.0, wrong], np.float32).tobytes())
    with pytest.raises(AudioError, match="reaches 30000; samples are in"):
        decoder.samples(np.array([0.0, 30_000], np.float32).tobytes())
    assert decoder.samples(np.array([0.5], np.float32).tobytes()).tolist() == [0.5]


@pytest.mark.parametrize("encoding", live_audio.RAW)
async def test_a_container_is_not_heard_as_raw_samples(encoding: str) -> None:
    for container, codec in (("webm", "libopus"), ("wav", "pcm_s16le"), ("flac", "flac")):
        data = muxed(TONE, RATE, container, codec, file_rate=48_000)
        with pytest.raises(AudioError, match=r"begins like a container \(\w+\), not like samples"):
            await decoded(encoding, [data])


def test_the_rates_of_encodings() -> None:
    assert [default_rate(name) for name in live_audio.ENCODINGS] == [
        *(16_000, 16_000, 16_000, 8_000, 8_000, 16_000)
    ]


def spectrum_peak(samples: np.ndarray) -> float:
    power = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(power) * RATE / len(samples))


@pytest.mark.parametrize(
    ("container", "codec", "file_rate", "options"),
    [
        ("webm", "libopus", 48_000, {"live": "1", "cluster_time_limit": "100"}),
        ("ogg", "libopus", 48_000, {}),
        ("wav", "pcm_s16le", 44_100, {}),
        ("mp3", "libmp3lame", 44_100, {}),
        ("flac", "flac", 16_000, {}),
        ("mp4", "aac", 48_000, {"movflags": "frag_every_frame+empty_moov+default_base_moof"}),
    ],
)
@pytest.mark.parametrize("encoding", ["auto", "container"])
async def test_a_container_comes_out_at_the_rate_of_the_session(
    container: str, codec: str, file_rate: int, options: dict[str, Any], encoding: str
) -> None:
    data = muxed(TONE, RATE, container, codec, file_rate=file_rate, **options)
    result = await decoded(encoding, cut(data, 1, 3000))
    assert result.dtype == np.float32
    assert len(result) / RATE == pytest.approx(3.0, abs=0.15)
    assert spectrum_peak(result) == pytest.approx(440, abs=2)
    assert np.sqrt(np.mean(result**2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.1)


async def test_samples_come_before_the_container_ends() -> None:
    data = muxed(TONE, RATE, "webm", "libopus", file_rate=48_000, cluster_time_limit="100")
    frames = [data[start : start + 2000] for start in range(0, len(data), 2000)]
    lengths: list[int] = []
    async with LiveFrames("auto", RATE) as live:
        for frame in frames:
            size = 0
            async for samples in live.decoded(frame):
                size += len(samples)
            lengths.append(size)
    wait_until(no_decoder_is_left)
    # Half of the bytes give most of half of the audio.
    assert sum(lengths[: len(lengths) // 2]) > 0.9 * RATE


async def test_a_container_that_ends_with_its_first_frame_is_whole() -> None:
    data = muxed(TONE, RATE, "mp3", "libmp3lame")
    whole = len(await decoded("auto", [data]))
    async with LiveFrames("auto", RATE) as live:
        assert sum([len(part) async for part in live.decoded(data, ends=True)]) == whole


async def test_much_audio_in_few_bytes_is_taken_piece_by_piece() -> None:
    data = muxed(np.zeros(40 * RATE, np.float32), RATE, "ogg", "libopus", file_rate=48_000)
    async with LiveFrames("container", RATE) as live:
        lengths = [len(samples) async for samples in live.decoded(data)]
    assert sum(lengths) / RATE == pytest.approx(40, abs=1)
    assert max(lengths) <= 6 * RATE


@pytest.mark.parametrize("stop_after", [1, 100, 4000])
async def test_a_client_that_is_gone_leaves_no_decoder(stop_after: int) -> None:
    data = muxed(TONE, RATE, "webm", "libopus", file_rate=48_000)
    async with LiveFrames("container", RATE) as live:
        with pytest.raises(ConnectionResetError):
            async for _ in live.decoded(data[:64] + data[64:stop_after]):
                raise ConnectionResetError
            raise ConnectionResetError
    wait_until(no_decoder_is_left)


async def test_a_client_that_is_gone_in_the_middle_of_much_audio_leaves_no_decoder() -> None:
    data = muxed(np.zeros(60 * RATE, np.float32), RATE, "ogg", "libopus", file_rate=48_000)
    async with LiveFrames("container", RATE) as live:
        async for _ in live.decoded(data):
            break
    wait_until(no_decoder_is_left)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"%PDF-1.7" + bytes(100), "is a PDF, not audio"),
        (b"these are some words, " * 9, "is text, not audio"),
        (b"\x1aE\xdf\xa3" + bytes(range(1, 250)) * 90, "the audio"),
        (b"OggS\0\2" + bytes(5000), "the audio"),
    ],
)
async def test_garbage_is_an_error(data: bytes, message: str) -> None:
    with pytest.raises(AudioError, match=message):
        await decoded("auto", [data])
    wait_until(no_decoder_is_left)


async def test_tags_after_the_end_of_a_container_are_left_out_and_audio_is_refused() -> None:
    data = muxed(TONE, RATE, "wav", "pcm_s16le")
    whole = await decoded("auto", [data])
    assert len(await decoded("auto", [data, *[bytes(100_000)] * 5])) == len(whole) == len(TONE)
    with pytest.raises(AudioError, match=r"has ended after 3\.0 s; \d+ bytes behind the audio"):
        await decoded("auto", [data, *[bytes(100_000)] * 15])


async def test_raw_samples_are_no_container(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="no container that is known: webm, Ogg"):
        await decoded("container", [(TONE * 32767).astype("<i2").tobytes()])
