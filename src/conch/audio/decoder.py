"""Decode one source by FFmpeg, to the last byte that holds audio.

This runs in a process of its own, see `conch.audio.worker`, and imports neither numpy nor the rest
of Conch. FFmpeg gets bytes and nothing else: see `conch.audio.limits`.
"""

import ctypes
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Protocol

import av
from av.audio.plane import AudioPlane
from av.error import FFmpegError

from conch.audio.limits import DECODERS, FFMPEG_OPTIONS, check_rate, refuse_to_open
from conch.audio.sniffing import NUM_FIRST_BYTES, container_of, description_of
from conch.audio.structure import (
    Extent,
    end_of_data,
    end_of_first_pages,
    extent_of,
    is_name,
    stated_by_xing,
)
from conch.wire.errors import AudioError

STATE_THEIR_LENGTH = ("flac", "flv", "matroska,webm", "mov,mp4,m4a,3gp,3g2,mj2")
"""Formats whose header has the length. For others, FFmpeg guesses it from the bit rate."""
COUNT_THEIR_LENGTH = ("aiff", "au", "caf", "ogg", "w64", "wav")
"""Formats whose length FFmpeg counts in the bytes that are there."""
ELEMENTARY = ("aac", "ac3", "mp3")
"""Formats that are packets one behind the other, with tags between them."""
TAGS = (b"ID3", b"TAG", b"APETAGEX", b"LYRICS", b"Xing", b"Info")
CUT_OFF_S = 1.0
"""A file that is this many seconds shorter than its header says is cut off."""
MIN_GAP_S = 0.5
"""Smallest gap between two frames in seconds; less is rounding."""
MIN_FLAC_GAP_S = 0.002
"""Smallest gap in FLAC, whose times are exact."""
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
MAX_PIECES = 1000
"""Most files that are joined: each is opened, and may have few samples."""
MIN_LEFT_BYTES = 1024
"""Fewest bytes after the audio to report; fewer are tags."""
MAX_HEAD_BYTES = 200
"""Bytes between two packets of a webm: the head of a cluster."""
MAX_TAG_BYTES = 2**20
"""Bytes that may follow the audio of a stream: tags, and the pictures in them."""
_OGG, _WAV = rb"OggS\x00\x02", rb"RIFF.{4}WAVE(?:fmt |JUNK|bext|LIST)"
_WEBM, _MP4 = rb"\x1aE\xdf\xa3.{1,8}\x42\x86\x81", rb"\0\0\0.ftyp"
_FLAC = rb"fLaC\x00\x00\x00\x22"
STARTS = {
    container: re.compile(b"|".join(starts), re.DOTALL)
    for container, starts in {
        "ogg": (_OGG, _WAV, _WEBM, _MP4),
        "flac": (_OGG, _WAV, _WEBM, _MP4, _FLAC),
        "matroska": (_WAV, _WEBM, _MP4),
        "mov": (_WAV, _WEBM, _MP4),
        "mp3": (_OGG, _WAV, _WEBM, _MP4, _FLAC),
        "aac": (_OGG, _WAV, _WEBM, _MP4, _FLAC),
    }.items()
}
"""How a further file begins where FFmpeg would take it for a part of the first, or skip it."""
START_BYTES = 19
"""Most bytes of a match of STARTS."""
_LATER_ELEMENTS = (b"\x1c\x53\xbb\x6b", b"\x12\x54\xc3\x67", b"\x11\x4d\x9b\x74")
"""First bytes of what may follow the last cluster of a webm: its index, tags, and places."""
FILE_BUFFER, PIPE_BUFFER = 64 * 1024, 4096
"""Bytes that FFmpeg reads at a time; of a pipe also to detect the codecs, without long delay."""
SILENT_SAMPLES = 4096
"""Samples of silence that are written at once."""
ITEM_BYTES = {"u8": 1, "s16": 2, "s32": 4, "flt": 4, "dbl": 8}
"""Bytes of a sample, by FFmpeg's names of the types."""

# PyAV has no function for this. Any of its modules links libavutil.
ctypes.CDLL(av.logging.__file__).av_max_alloc(ctypes.c_size_t(MAX_ALLOCATION))


class ByteSource(Protocol):
    size: int | None
    """Number of bytes; None for a pipe, in which no byte is read twice but the latest."""

    def at(self, offset: int, size: int) -> bytes:
        """Return bytes at an offset, at least one; none only at the end."""
        ...


class Sink(Protocol):
    def begin(self, rate: int, channels: int, sample_type: str, length_s: float | None) -> None:
        """Take the sample rate in Hz, the channels, the type of a sample, and the stated length."""
        ...

    def write(self, samples: bytes | memoryview) -> None:
        """Take interleaved samples."""
        ...


class Decoding:
    """Decodes a source, and whatever was joined on to it, to samples of one form."""

    def __init__(
        self, source: ByteSource, sink: Sink, name: str, *, container: str | None, fills_gaps: bool
    ) -> None:
        """Decode `source` to `sink`, all with the rate and the channels of the first frame.

        Errors call the audio `name`. `container` is FFmpeg's name of the format; None detects it.
        With `fills_gaps`, silence fills the gaps between the times of frames, and a packet that
        cannot be decoded is left out with a warning. Otherwise it is an error.
        """
        self._source, self._sink, self._name = source, sink, name
        self._container, self._is_file = container, fills_gaps
        self._form: _Form | None = None
        self.warnings: list[str] = []

    def run(self) -> None:
        """Decode all; raise an AudioError if there are no samples, or other data follows them."""
        offset, container = 0, self._container
        for _ in range(MAX_PIECES):
            piece = _Piece(self._source, offset, self._name, container)
            try:
                self._decode(piece)
            except AudioError as error:
                if not offset:
                    raise
                self._leave_out(offset, str(error))
                return
            further = piece.further()
            if self._is_file:
                self.warnings += piece.warnings
                piece.warn_if_damaged(self.warnings)
            if further is None:
                self._tell_left(piece)
                return
            offset, container = further
        self._leave_out(offset, f"more than {MAX_PIECES} files are joined")

    def _leave_out(self, offset: int, why: str) -> None:
        size = self._source.size
        if size is None:
            raise AudioError(why)
        self.warnings.append(f"the last {size - offset} bytes of the file are left out: {why}")

    def _decode(self, piece: "_Piece") -> None:
        piece.open()
        for frame in piece.frames():
            if self._form is None:
                check_rate(frame.sample_rate, f"the sample rate of {self._name}")
                self._form = _Form(frame)
                self._sink.begin(
                    *(frame.sample_rate, frame.layout.nb_channels, self._form.sample_type),
                    piece.stated_length_s(),
                )
            gap_s = piece.gap_s(frame)
            if piece.lost and not self._is_file:
                break
            if gap_s and self._is_file:
                self._write(self._form.silence(round(gap_s * self._form.rate)))
            piece.decoded_s += gap_s
            piece.decoded_s += frame.samples / frame.sample_rate
            self._write(self._form.samples(frame, self._name))
        if self._form is not None:
            self._write(self._form.rest())
        if not piece.decoded_s:
            raise AudioError(f"{self._name} holds no samples: {piece.why_empty()}")
        if not self._is_file and (piece.lost or piece.is_broken_off or piece.is_lost_at_end):
            raise AudioError(f"{self._name} is damaged after {piece.decoded_s:.1f} s")

    def _write(self, pieces: Iterator[bytes | memoryview]) -> None:
        for piece in pieces:
            self._sink.write(piece)

    def _tell_left(self, piece: "_Piece") -> None:
        left, is_tag = piece.left()
        said = f"{left} bytes behind the audio are left out: they are no audio"
        if self._is_file and not is_tag:
            self.warnings.append(said)
        if not self._is_file and (left > MAX_TAG_BYTES or not is_tag):
            raise AudioError(f"{self._name} has ended after {piece.decoded_s:.1f} s; {said}")


class _Form:
    """The form of all samples: that of the first frame, interleaved."""

    def __init__(self, frame: Any) -> None:
        self.rate, self._layout = frame.sample_rate, frame.layout
        self.sample_type = frame.format.name.removesuffix("p")
        self._resampler: Any = None
        self._taken: tuple[Any, ...] = ()
        """Form of the frames that the resampler takes."""

    def samples(self, frame: Any, name: str) -> Iterator[bytes | memoryview]:
        """Yield a frame's samples, some of them later; raise an AudioError for a bad rate."""
        channels = frame.layout.nb_channels
        is_interleaved = not frame.format.is_planar or channels == 1
        is_plain = is_interleaved and frame.format.name.removesuffix("p") == self.sample_type
        if is_plain and (frame.sample_rate, channels) == (self.rate, self._layout.nb_channels):
            yield from self.rest()
            yield self._bytes(frame)
            return
        taken = frame.format.name, frame.layout.name, frame.sample_rate
        if taken != self._taken:
            yield from self.rest()
            check_rate(frame.sample_rate, f"the sample rate of {name}")
            self._taken = taken
            self._resampler = av.AudioResampler(self.sample_type, self._layout, self.rate)
        frame.pts = None  # times that jump would make it fill gaps
        for piece in self._resampler.resample(frame):
            yield self._bytes(piece)

    def rest(self) -> Iterator[memoryview]:
        resampler, self._resampler, self._taken = self._resampler, None, ()
        if resampler is not None:
            for piece in resampler.resample(None):
                yield self._bytes(piece)

    def silence(self, samples: int) -> Iterator[bytes]:
        silent = b"\x80" if self.sample_type == "u8" else b"\0"
        frame = self._layout.nb_channels * ITEM_BYTES[self.sample_type]
        for start in range(0, samples, SILENT_SAMPLES):
            yield silent * (min(SILENT_SAMPLES, samples - start) * frame)

    def _bytes(self, frame: Any) -> memoryview:
        size = frame.samples * frame.layout.nb_channels * ITEM_BYTES[self.sample_type]
        # Not `frame.planes`: with eight planes it reads a ninth, out of bounds.
        plane: Any = AudioPlane(frame, 0)
        return memoryview(plane)[:size]


class _ContainerFile:
    """A file for FFmpeg: a source from an offset on, to where a further file begins."""

    def __init__(self, source: ByteSource, first: int, container: str | None) -> None:
        """Begin at the offset `first`, where a container of this kind begins."""
        self._source, self._first, self._offset = source, first, 0
        if source.size is not None:
            self.seek = self._seek
        self.stop: int | None = None
        """Offset of a further file that was found."""
        self._start = STARTS.get(container or "")
        self._searched_from, self._before = 8, b""
        """Offset from which a further file may begin, and the bytes before the current offset."""
        if container == "ogg":
            self._searched_from = end_of_first_pages(self.at)
        elif container == "wav" and source.size is None:
            # FFmpeg would take what follows for a chunk.
            self.stop = end_of_data(self.at)

    def at(self, offset: int, size: int) -> bytes:
        """Return bytes from the beginning of this container, fewer than `size` only at the end."""
        data = b""
        while len(data) < size:
            more = self._source.at(self._first + offset + len(data), size - len(data))
            if not more:
                break
            data += more
        return data

    def read(self, size: int) -> bytes:
        if self.stop is not None:
            size = min(size, self.stop - self._offset)
        if size <= 0:
            return b""
        data = self._source.at(self._first + self._offset, size)
        if self._start is not None:
            joined, offset = self._before + data, self._offset - len(self._before)
            match = self._start.search(joined, max(0, self._searched_from - offset))
            if match and (self.stop is None or offset + match.start() < self.stop):
                self.stop = offset + match.start()
        if self.stop is not None:
            data = data[: max(0, self.stop - self._offset)]
        self._offset += len(data)
        self._before = data[-START_BYTES:]
        return data

    def tell(self) -> int:
        return self._offset

    def close(self) -> None:
        """Do nothing: FFmpeg needs it."""

    def _seek(self, offset: int, whence: int = 0) -> int:
        assert self._source.size is not None
        ends = (0, self._offset, self._source.size - self._first)
        target = max(0, ends[whence] + offset)
        if target != self._offset:
            self._offset, self._before = target, b""
        return target


class _Piece:
    """One container in a source, from its first byte to its last packet."""

    def __init__(self, source: ByteSource, offset: int, name: str, container: str | None) -> None:
        self._source, self.offset, self._name = source, offset, name
        self._container = container
        self._reader: Any = None
        self._opened: Any = None
        self._stream: Any = None
        self.start_s = self.decoded_s = 0.0
        self._reached_s = 0.0
        """End of the packets so far, of any track, in seconds."""
        self._end = self._skipped = 0
        """End of the packets so far, in bytes, and bytes before the last one that are in none."""
        self.lost: list[float] = []
        """Times of packets that could not be decoded, in seconds."""
        self.is_broken_off = False
        self.warnings: list[str] = []
        self.extent = Extent(0)

    @property
    def _size(self) -> int | None:
        return None if self._source.size is None else self._source.size - self.offset

    def open(self) -> None:
        """Find the audio track; raise an AudioError if there is none of a known codec."""
        is_pipe, container = self._size is None, self._container
        if not is_pipe:
            with suppress(AudioError):
                container = container_of(
                    _ContainerFile(self._source, self.offset, None).at(0, NUM_FIRST_BYTES)
                )
        self._reader = _ContainerFile(self._source, self.offset, container)
        # FFmpeg would decode megabytes of a WAV to find out what else it may be.
        probing = {"probesize": str(PIPE_BUFFER)} if is_pipe or container == "wav" else {}
        try:
            self._opened = av.open(
                self._reader,
                mode="r",
                format=self._container if is_pipe else None,
                options={**FFMPEG_OPTIONS, **probing},
                io_open=refuse_to_open,
                buffer_size=PIPE_BUFFER if is_pipe else FILE_BUFFER,
                metadata_errors="ignore",
            )
        except (FFmpegError, ValueError) as error:
            raise self._unreadable(error) from None
        tracks = self._opened.streams.audio
        if not tracks:
            raise AudioError(f"{self._name} has no audio track: found {self.described()}")
        stream = self._stream = self._opened.streams.best("audio") or tracks[0]
        context = stream.codec_context
        if context is None or context.codec.name not in DECODERS.split(","):
            raise AudioError(
                f"the audio codec of {self._name} is not supported: found {self.described()}"
            )
        if context.sample_rate:
            check_rate(context.sample_rate, f"the sample rate of {self._name}")
        if len(tracks) > 1:
            self.warnings.append(
                f"the file has {len(tracks)} audio tracks: only number {tracks.index(stream) + 1} "
                "is transcribed"
            )
        context.thread_count = 1
        context.options = {"max_samples": str(MAX_FRAME_SAMPLES)}
        if context.name == "flac":  # otherwise it decodes what its checksum says is damaged
            context.options |= {"err_detect": "crccheck+explode"}
        start = self._opened.start_time
        self.start_s = 0.0 if start is None else start / av.time_base

    def _unreadable(self, error: Exception) -> AudioError:
        if self._size is not None:
            what = description_of(self._reader.at, self._size)
            return AudioError(f"{self._name} cannot be decoded ({self._size} bytes): found {what}")
        said = getattr(error, "strerror", None) or str(error)
        # Without its index, FFmpeg reports a damaged MP4.
        return AudioError(
            f"{self._name} cannot be decoded: {self.why_empty() if self._is_mp4 else said}"
        )

    @property
    def _is_mp4(self) -> bool:
        return self._container == "mov"

    def why_empty(self) -> str:
        if self._size is None and self._is_mp4:
            return "an MP4 that is decoded as it comes has its index in front, or is in fragments"
        return f"found {self.described()}"

    def described(self) -> str:
        """Return the container's format and the kinds and codecs of its streams."""
        streams = [
            f"{item.type} {item.codec_context.name if item.codec_context else 'of unknown codec'}"
            for item in self._opened.streams
        ]
        name = self._opened.format.name
        return f"container {name} with streams {', '.join(streams) or 'none'}"

    def frames(self) -> Iterator[Any]:
        """Yield decoded frames, without packets that cannot be decoded."""
        # Of a file all tracks: their times show how far it reaches.
        packets = self._opened.demux(*([self._stream] if self._size is None else []))
        has_frames = False
        while True:
            try:
                packet = next(packets, None)
            except FFmpegError:
                self.is_broken_off = True
                return
            except IndexError:  # PyAV at the end of a file that has added tracks
                return
            if packet is None:
                return
            self._note(packet)
            if packet.stream_index != self._stream.index:
                continue
            try:
                frames = packet.decode()
            except FFmpegError:
                if not self._is_tag(packet):
                    self.lost.append(self._reached_s)
                is_hopeless = not has_frames and len(self.lost) > MAX_LOST_FIRST
                if is_hopeless or (self.lost and self._size is None):
                    return
                continue
            for frame in frames:
                if frame.samples:
                    has_frames = True
                    yield frame

    def gap_s(self, frame: Any) -> float:
        """Return the seconds between the audio so far and a frame by its time, 0 for no gap."""
        name = self._opened.format.name
        if frame.time is None or name in ELEMENTARY:
            return 0.0
        gap_s = float(frame.time - self.start_s - self.decoded_s)
        if not (MIN_FLAC_GAP_S if name == "flac" else MIN_GAP_S) < gap_s < MAX_GAP_S:
            return 0.0
        # FFmpeg passes over frames, pages and clusters that are damaged. A webm may have pauses.
        if name in ("flac", "ogg") or (name[:8] == "matroska" and self._skipped > MAX_HEAD_BYTES):
            self.lost.append(self.decoded_s)
        return gap_s

    def _note(self, packet: Any) -> None:
        if packet.pts is not None:
            end_s = float((packet.pts + (packet.duration or 0)) * packet.time_base)
            self._reached_s = max(self._reached_s, end_s - self.start_s)
        if packet.pos is not None:
            self._skipped = packet.pos - self._end
            self._end = max(self._end, packet.pos + packet.size)

    def _is_tag(self, packet: Any) -> bool:
        """Return whether a packet is a tag between or after the frames of plain packets."""
        if self._opened.format.name not in ELEMENTARY:
            return False
        data = bytes(packet)
        return any(tag in data for tag in TAGS)

    def further(self) -> tuple[int, str | None] | None:
        """Return where a further container begins in the source, and its format; None if none."""
        start, size = self._reader.stop, self._size
        if size is not None:
            self.extent = extent_of(self._reader.at, size if start is None else start, self._end)
            start = self.extent.end if start is None else start
        if not start or start == size:
            return None
        with suppress(AudioError):
            if container := container_of(self._reader.at(start, NUM_FIRST_BYTES)):
                return self.offset + start, container
        return None

    @property
    def is_lost_at_end(self) -> bool:
        """Whether FFmpeg has found no packet in the last bytes of a webm that comes over a pipe."""
        if self._size is not None or self._container != "matroska":
            return False
        num_bytes = self._reader.tell() - self._end
        return num_bytes > MIN_LEFT_BYTES and self._reader.at(self._end, 4) not in _LATER_ELEMENTS

    def left(self) -> tuple[int, bool]:
        """Return how many bytes follow the container, and whether they may be tags or padding."""
        start = self._reader.tell() if self._reader.stop is None else self._reader.stop
        if self._size is not None:
            start = self.extent.end
            num_left = self._size - start
        first = self._reader.at(start, MIN_LEFT_BYTES)
        is_tag = len(first) < MIN_LEFT_BYTES or not any(first) or first.startswith(TAGS)
        if self._size is None:
            # FFmpeg has not walked over the chunks that end a WAV.
            is_chunk = int.from_bytes(first[4:8], "little") <= MAX_TAG_BYTES
            is_tag |= is_name(first[:4]) and is_chunk
            num_left = len(first)
            while num_left <= MAX_TAG_BYTES and (
                more := self._source.at(self.offset + start + num_left, PIPE_BUFFER)
            ):
                num_left += len(more)
        return num_left, is_tag

    def stated_length_s(self) -> float | None:
        duration, name = self._opened.duration, self._opened.format.name
        if duration is None or self._size is None:
            return None
        is_stated = name in (*STATE_THEIR_LENGTH, *COUNT_THEIR_LENGTH)
        if name == "mp3":
            # Joined files have the length of the first.
            is_stated = abs(self._size - stated_by_xing(self._reader.at)) < MIN_LEFT_BYTES
        return max(0.0, duration / av.time_base - self._late_s) if is_stated else None

    @property
    def _late_s(self) -> float:
        """Seconds of the stated length before the first frame: those of a Matroska count from 0."""
        return self.start_s if self._opened.format.name == "matroska,webm" else 0.0

    def warn_if_damaged(self, warnings: list[str]) -> None:
        """Add what is missing inside and at the end."""
        name, duration = self._opened.format.name, self._opened.duration
        reached = max(self._reached_s, self.decoded_s)
        stated_s: float | None = None
        if self.extent.is_cut and self.extent.stated_share > 1:
            stated_s = self.decoded_s * self.extent.stated_share
        has_length = name in STATE_THEIR_LENGTH or (name == "mp3" and self.extent.is_cut)
        if duration is not None and has_length:
            stated_s = duration / av.time_base - self._late_s
        is_cut_off = stated_s is not None and reached < stated_s - CUT_OFF_S
        inside = [at for at in self.lost if at < reached - 1e-3]
        ends_damaged = self.is_broken_off or len(inside) < len(self.lost) or self.extent.is_cut
        if inside:
            warnings.append(
                f"the file is damaged: {len(inside)} of its packets, the first at "
                f"{inside[0]:.1f} s, cannot be decoded and are left out"
            )
        if is_cut_off:
            warnings.append(
                f"the file is cut off: it has {self.decoded_s:.1f} of the {stated_s:.1f} s that "
                "its header says"
            )
        elif ends_damaged:
            warnings.append(f"the file breaks off after {self.decoded_s:.1f} s: it may be cut off")
