"""Files of every container that PyAV writes, made of samples."""

import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import soxr

VIDEO_RATE = 5


def muxed(
    samples: np.ndarray,
    rate: int,
    container: str,
    codec: str,
    *,
    file_rate: int | None = None,
    video: bool = False,
    tracks: int = 1,
    bit_rate: int | None = None,
    skipped: tuple[float, float] | None = None,
    **options: str,
) -> bytes:
    """Return a file with sound.

    Args:
        samples: FP32 [frames] or [frames, channels].
        rate: Hz, of the samples.
        container: FFmpeg's name of the format.
        codec: FFmpeg's name of the encoder of the sound.
        file_rate: Hz, of the sound in the file.
        video: whether there is a grey picture, too.
        tracks: how many times the sound is in it.
        bit_rate: of the sound.
        skipped: from which second to which nothing is written.
        options: of the container.
    """
    if file_rate is not None:
        samples = soxr.resample(samples, rate, file_rate)
        rate = file_rate
    samples = np.atleast_2d(samples.T).astype(np.float32)
    layout = "mono" if len(samples) == 1 else "stereo"
    # A folder, as some writers open the file a second time by its name.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        with av.open(str(path), "w", format=container, options=options) as out:
            picture = out.add_stream("mpeg4", rate=VIDEO_RATE) if video else None
            if picture is not None:
                picture.width = picture.height = 64
                picture.pix_fmt = "yuv420p"
            given: dict[str, Any] = {} if bit_rate is None else {"bit_rate": bit_rate}
            sounds: list[Any] = [
                out.add_stream(codec, rate=rate, layout=layout, **given) for _ in range(tracks)
            ]
            frames = [_frames(samples, rate, layout, sound, skipped) for sound in sounds]
            for index in range(int(samples.shape[1] / rate * VIDEO_RATE) if picture else 0):
                grey = np.full((96, 64), 128, np.uint8)
                image = av.VideoFrame.from_ndarray(grey, "yuv420p")
                image.pts, image.time_base = index, Fraction(1, VIDEO_RATE)
                out.mux(picture.encode(image))
            for sound, track in zip(sounds, frames, strict=True):
                for frame in [*track, None]:
                    out.mux(sound.encode(frame))
            if picture is not None:
                out.mux(picture.encode(None))
        return path.read_bytes()


def _frames(samples, rate, layout, sound, skipped) -> list[av.AudioFrame]:
    whole = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), "fltp", layout)
    whole.rate = rate
    fifo = av.AudioFifo()
    for piece in av.AudioResampler(sound.format, sound.layout, rate).resample(whole):
        piece.pts = None
        fifo.write(piece)
    frames, at = [], 0
    while (frame := fifo.read(sound.codec_context.frame_size or 1024, partial=True)) is not None:
        frame.pts, frame.time_base = at, Fraction(1, rate)
        if skipped is None or not skipped[0] <= at / rate < skipped[1]:
            frames.append(frame)
        at += frame.samples
    return frames
