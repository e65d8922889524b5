"""Decode audio files that libsndfile cannot read (m4a, mp4, webm, amr, wma, …) by PyAV (FFmpeg).

The files are untrusted. FFmpeg gets the bytes in memory and nothing else: see
`conch.audio.ffmpeg`.
"""

import ctypes
import io
from collections.abc import Generator, Iterator
from typing import Any

import av
import numpy as np
from av.audio.plane import AudioPlane
from av.error import FFmpegError

from conch.audio import ffmpeg
from conch.audio.blocks import cut_to_blocks
from conch.audio.contents import breaks_off, found_in
from conch.component import Array
from conch.wire.errors import AudioError

STATE_THEIR_LENGTH = ("asf", "avi", "flac", "flv", "matroska,webm", "mov,mp4,m4a,3gp,3g2,mj2")
"""Formats whose header has the length. For others, FFmpeg guesses it from the bit rate."""
CUT_OFF_S = 1.0
"""A file that is this many seconds shorter than its header says is cut off."""
MIN_GAP_S = 0.5
"""Smallest gap between two frames in seconds; less is rounding."""
MAX_GAP_S = 600.0
"""Largest gap between two frames in seconds; more is a broken time."""
MAX_ALLOCATION = 64 * 2**20
"""Largest allocation of FFmpeg in bytes. The index of ten hours of speech takes less. A forged
header of a few bytes could claim all memory."""
MAX_LOST_FIRST = 10_000
"""Largest number of lost packets before the first decoded one: minutes of real audio. It stops
forged files that consist of millions of bad packets."""
MAX_FRAME_SAMPLES = 2**21
"""Most samples in a decoded frame, over all channels; no real frame has as many."""
SAMPLE_FORMATS = {
    "u8": (np.uint8, 2**7),
    "s16": (np.int16, 2**15),
    "s32": (np.int32, 2**31),
    "flt": (np.float32, 1),
    "dbl": (np.float64, 1),
}
"""Type and full scale of FFmpeg's sample formats."""

# PyAV has no function for this. Any of its modules links libavutil.
ctypes.CDLL(av.logging.__file__).av_max_alloc(ctypes.c_size_t(MAX_ALLOCATION))


class ContainerFile:
    """A file decoded by FFmpeg; see `conch.audio.files.AudioFile`."""

    def __init__(self, data: bytes) -> None:
        """Read up to the first samples.

        Raises:
            AudioError: the file has no samples. The message says what was found.
        """
        self.warnings: list[str] = []
        self._data = data
        self._container = _opened(data)
        self._stream = self._sound()
        start = self._container.start_time
        self._start_s = 0.0 if start is None else start / av.time_base
        self._reached_s = 0.0
        """End of the packets so far, of any track, in seconds."""
        self._lost: list[float] = []
        """Times of packets that could not be decoded, in seconds."""
        self._is_broken_off = False
        self._first: Any = None
        self._frames = self._decoded()
        first = next(self._frames, None)
        if first is None:
            raise AudioError(
                f"AUDIO holds no samples that can be decoded: found {_described(self._container)}"
            )
        self._first = first
        self.sample_rate: int = first.sample_rate
        self.num_channels: int = first.layout.nb_channels
        self.length_s = self._stated_length_s()

    def blocks(self, block_frames: int) -> Iterator[Array]:
        """Yield the samples; see `AudioFile.blocks`. Closing the iterator frees FFmpeg's memory."""
        try:
            yield from cut_to_blocks(self._pieces(block_frames), block_frames)
        finally:
            self._frames.close()
            self._container.close()

    def _pieces(self, block_frames: int) -> Iterator[Array]:
        """Yield FP32 [samples, channels] of any length, with silence in the gaps of the file."""
        position = 0
        frame: Any = self._first
        while frame is not None:
            if frame.sample_rate != self.sample_rate:
                self.warnings.append(
                    f"the sample rate changes after {position / self.sample_rate:.1f} s: "
                    "the rest is left out"
                )
                return
            if frame.time is not None:
                gap_s = frame.time - self._start_s - position / self.sample_rate
                missing = round(gap_s * self.sample_rate) if MIN_GAP_S < gap_s < MAX_GAP_S else 0
                position += missing
                while missing > 0:
                    silent = min(missing, block_frames)
                    yield np.zeros((silent, self.num_channels), np.float32)
                    missing -= silent
            samples = _samples(frame)
            if samples.shape[1] != self.num_channels:
                mono = samples.mean(axis=1, keepdims=True)
                samples = np.repeat(mono, self.num_channels, axis=1)
            position += len(samples)
            yield samples
            frame = next(self._frames, None)
        self._warn_if_damaged(position / self.sample_rate)

    def _decoded(self) -> Generator[Any, None, None]:
        """Yield decoded frames, without packets that cannot be decoded."""
        packets = self._container.demux()
        while True:
            try:
                packet = next(packets, None)
            except FFmpegError:
                self._is_broken_off = True
                return
            except IndexError:  # PyAV at the end of a file that has added tracks
                return
            if packet is None:
                return
            if packet.pts is not None:
                end = (packet.pts + (packet.duration or 0)) * packet.time_base
                self._reached_s = max(self._reached_s, float(end) - self._start_s)
            if packet.stream_index != self._stream.index:
                continue
            try:
                frames = packet.decode()
            except FFmpegError:
                self._lost.append(self._reached_s)
                if self._first is None and len(self._lost) > MAX_LOST_FIRST:
                    return
                continue
            for frame in frames:
                if frame.samples:
                    yield frame

    def _warn_if_damaged(self, decoded_s: float) -> None:
        stated_s = self.length_s
        reached = max(self._reached_s, decoded_s)
        is_cut_off = stated_s is not None and reached < stated_s - CUT_OFF_S
        inside = [at for at in self._lost if at < reached - 1e-3]
        ends_damaged = self._is_broken_off or len(inside) < len(self._lost)
        if inside:
            self.warnings.append(
                f"the file is damaged: {len(inside)} of its packets, the first at "
                f"{inside[0]:.1f} s, cannot be decoded and are left out"
            )
        if is_cut_off:
            self.warnings.append(
                f"the file is cut off: it has {decoded_s:.1f} of the {stated_s:.1f} s that its "
                "header says"
            )
        elif ends_damaged or breaks_off(self._data):
            self.warnings.append(f"the file breaks off after {decoded_s:.1f} s: it may be cut off")

    def _stated_length_s(self) -> float | None:
        duration = self._container.duration
        if duration is None or self._container.format.name not in STATE_THEIR_LENGTH:
            return None
        return float(duration / av.time_base)

    def _sound(self) -> Any:
        """Return the audio track to decode; raise AudioError without one of `ffmpeg.CODECS`."""
        container = self._container
        if not container.streams.audio:
            raise AudioError(f"AUDIO has no audio track: found {_described(container)}")
        stream = container.streams.best("audio") or container.streams.audio[0]
        context = stream.codec_context
        if context is None or not ffmpeg.is_decoded(context.codec.name):
            raise AudioError(
                f"the audio codec of AUDIO is not supported: found {_described(container)}"
            )
        if len(container.streams.audio) > 1:
            number = container.streams.audio.index(stream) + 1
            self.warnings.append(
                f"the file has {len(container.streams.audio)} audio tracks: "
                f"only number {number} is transcribed"
            )
        context.thread_count = 1
        context.options = {"max_samples": str(MAX_FRAME_SAMPLES)}
        return stream


def _opened(data: bytes) -> Any:
    options = dict(ffmpeg.OPTIONS)
    try:
        return av.open(io.BytesIO(data), options=options, io_open=ffmpeg.refuse_to_open)
    except (FFmpegError, UnicodeDecodeError):
        raise AudioError(
            f"AUDIO cannot be decoded ({len(data)} bytes): found {found_in(data)}"
        ) from None


def _described(container: Any) -> str:
    """Return the container's format and the kinds and codecs of its streams."""
    streams = [
        f"{stream.type} {stream.codec_context.name if stream.codec_context else 'of unknown codec'}"
        for stream in container.streams
    ]
    return f"container {container.format.name} with streams {', '.join(streams) or 'none'}"


def _samples(frame: Any) -> Array:
    """Return a frame of any sample format as FP32 [samples, channels]."""
    dtype, scale = SAMPLE_FORMATS[frame.format.name.removesuffix("p")]
    num_channels = frame.layout.nb_channels
    # Not `to_ndarray`: with eight planes it reads a ninth, out of bounds.
    if frame.format.is_planar:
        planes: list[Any] = [AudioPlane(frame, index) for index in range(num_channels)]
        channels = [np.frombuffer(plane, dtype, frame.samples) for plane in planes]
        samples: Array = np.stack(channels, axis=1, dtype=np.float32, casting="unsafe")
    else:
        plane: Any = AudioPlane(frame, 0)
        packed = np.frombuffer(plane, dtype, frame.samples * num_channels)
        samples = packed.reshape(-1, num_channels).astype(np.float32)
    if dtype == np.uint8:
        samples -= scale
    if scale != 1:
        samples /= scale
    return samples
