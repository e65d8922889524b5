"""Read the length of audio from its container."""

from typing import IO

import soundfile

from conch.audio.pieces import is_pyav_there, opened_by_pyav


def length_of(file: IO[bytes]) -> float | None:
    """Return the seconds of audio that a seekable file states; None if it states none.

    The file may be wrong: only decoding shows how much audio it has.
    """
    file.seek(0)
    try:
        return float(soundfile.info(file).duration)
    except (OSError, RuntimeError):
        pass
    if not is_pyav_there():
        return None
    import av

    file.seek(0)
    try:
        with opened_by_pyav(file) as container:
            return container.duration / av.time_base if container.duration else None
    except (OSError, ValueError):  # each of FFmpeg's errors is at least one of these
        return None
