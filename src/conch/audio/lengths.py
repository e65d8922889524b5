"""How long audio is, by what its container tells."""

from typing import IO

import soundfile

from conch.audio.pieces import is_pyav_there, opened_by_pyav


def length_of(file: IO[bytes]) -> float | None:
    """Return the seconds of audio in a seekable file, None if the file does not tell.

    The file may lie: only decoding it tells how much audio it has.
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
    except (OSError, ValueError):  # FFmpeg's errors are both, and some of them one
        return None
