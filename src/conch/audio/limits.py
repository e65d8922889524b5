"""The limits of audio: sample rate, duration, level, and what FFmpeg may open and decode.

The lists for FFmpeg have only audio decoders, and no formats that name other files or addresses
(playlists, dash, sdp): strangers send the audio.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from conch.wire.errors import AudioError

if TYPE_CHECKING:  # a process that decodes has no numpy
    from conch.component import Array

MIN_SAMPLE_RATE = 4_000
MAX_SAMPLE_RATE = 192_000

MAX_PEAK = 10.0
"""Largest sample value. Codecs exceed full scale a little; integers sent as floats by far."""
DEMUXERS = (
    "aac,ac3,aiff,amr,ape,asf,au,avi,avr,caf,dss,dts,eac3,flac,flv,gsm,iff,ircam,loas,matroska,mov,"
    "mp3,mpeg,mpegts,nistsphere,ogg,paf,pvf,qcp,sds,tta,voc,w64,wav,wv"
)
"""Demuxers that open no other files."""
DECODERS = (
    "aac,aac_latm,ac3,adpcm_ima_qt,adpcm_ima_wav,adpcm_ms,adpcm_swf,adpcm_yamaha,alac,amrnb,amrwb,"
    "ape,dca,dss_sp,eac3,flac,g722,g723_1,g726,g726le,g729,gsm,gsm_ms,ilbc,libopencore_amrnb,"
    "libopencore_amrwb,libopus,mp1,mp1float,mp2,mp2float,mp3,mp3float,opus,pcm_alaw,pcm_bluray,"
    "pcm_dvd,pcm_f32be,pcm_f32le,pcm_f64be,pcm_f64le,pcm_mulaw,pcm_s16be,pcm_s16be_planar,"
    "pcm_s16le,pcm_s16le_planar,pcm_s24be,pcm_s24le,pcm_s32be,pcm_s32le,pcm_s8,pcm_u16be,pcm_u16le,"
    "pcm_u8,qcelp,speex,truehd,truespeech,tta,vorbis,wavpack,wmalossless,wmapro,wmav1,wmav2,"
    "wmavoice"
)
MAX_STREAMS = 40
"""Largest number of streams in a file, because each may have an index that takes memory."""
FFMPEG_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "format_whitelist": DEMUXERS,
        "codec_whitelist": DECODERS,
        "protocol_whitelist": "",
        "max_streams": str(MAX_STREAMS),
        "err_detect": "crccheck",
    }
)
"""Options for `av.open` of a file object. With them FFmpeg cannot open a file by name."""


def check_rate(sample_rate: int, name: str) -> None:
    """Raise an AudioError, which begins with `name`, unless a rate in Hz is within its limits."""
    if not MIN_SAMPLE_RATE <= sample_rate <= MAX_SAMPLE_RATE:
        raise AudioError(
            f"{name} takes {MIN_SAMPLE_RATE} to {MAX_SAMPLE_RATE} Hz; sent: {sample_rate!r:.40}"
        )


def check_duration(seconds: float, max_audio_s: float) -> None:
    """Raise an AudioError if the audio is longer than `max_audio_s`."""
    if seconds > max_audio_s:
        raise AudioError(
            f"the audio is {seconds:.1f} s long; this server takes at most {max_audio_s:g} s "
            "(parameter max_audio_s of the model)"
        )


def peak(samples: "Array", name: str) -> float:
    """Return the largest absolute value of samples, FP32 of any shape, not empty.

    Raise an AudioError, which begins with `name`, if one is not finite or far outside [-1, 1].
    """
    highest = max(float(samples.max()), -float(samples.min()))
    if not math.isfinite(highest):
        raise AudioError(f"{name} has samples that are NaN or infinite")
    if highest > MAX_PEAK:
        raise AudioError(
            f"{name} reaches {highest:g}; samples are in [-1, 1]: divide 16-bit samples by 32768, "
            "or send them as PCM16"
        )
    return highest


def refuse_to_open(url: str, flags: int, options: dict[str, str]) -> NoReturn:
    """Raise PermissionError: the `io_open` of `av.open` for what a file names."""
    raise PermissionError("a file with audio names another")
