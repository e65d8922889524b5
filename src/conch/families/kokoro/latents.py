"""What both halves of the network exchange: all that the second one takes of a frame, in a row."""

from collections.abc import Mapping, Sequence

import numpy as np

from conch.component.arrays import FloatArray

TEXT, PITCH, LOUDNESS = (
    "/encoder/MatMul_1_output_0",
    "/encoder/Reshape_output_0",
    "/encoder/Reshape_1_output_0",
)
"""Values of the network: what is said `[1, 512, frames]`; twice a frame the pitch in Hz and how
loud it is."""
SOURCE = "/decoder/decoder/generator/Concat_3_output_0"
"""The spectrum of the harmonics, magnitudes and phases `[1, 22, 120 frames + 1]`."""
STYLE = "/decoder/Slice_output_0"
"""The half of the style that is about sound, `[1, 128]`."""
LATENTS = (TEXT, PITCH, LOUDNESS, SOURCE, STYLE)
SIZES = {TEXT: 512, PITCH: 2, LOUDNESS: 2, SOURCE: 22 * 121, STYLE: 128}
"""Values of a frame."""
CHANNELS = sum(SIZES.values())
STEP = 120
"""Columns of the spectrum in a frame; its row has one of the next frame, too."""


def packed(values: Sequence[FloatArray]) -> FloatArray:
    """Return the values of a sentence, in the order of `LATENTS`, as `[frames, CHANNELS]`."""
    text, pitch, loudness, source, style = (item[0] for item in values)
    frames = text.shape[1]
    windows = np.lib.stride_tricks.sliding_window_view(source, STEP + 1, axis=1)[:, ::STEP]
    return np.concatenate(
        [
            text.T,
            pitch.reshape(frames, -1),
            loudness.reshape(frames, -1),
            windows.swapaxes(0, 1).reshape(frames, -1),
            np.broadcast_to(style, (frames, len(style))),
        ],
        axis=1,
        dtype=np.float32,
    )


def unpacked(latents: FloatArray) -> Mapping[str, FloatArray]:
    """Return the values of a stretch of frames, by name."""
    cuts = np.cumsum([*SIZES.values()])[:-1]
    text, pitch, loudness, windows, style = np.split(latents, cuts, axis=1)
    windows = windows.reshape(len(latents), -1, STEP + 1).swapaxes(0, 1)
    source = windows[:, :, :STEP].reshape(len(windows), -1)
    found = (
        text.T,
        pitch.ravel(),
        loudness.ravel(),
        np.concatenate([source, windows[:, -1, STEP:]], axis=1),
        style[0],
    )
    return {
        name: np.ascontiguousarray(value)[np.newaxis]
        for name, value in zip(LATENTS, found, strict=True)
    }
