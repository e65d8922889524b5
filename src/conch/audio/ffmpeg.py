"""Limits for FFmpeg with untrusted audio: listed formats and decoders only, and no other files.

The lists have only audio decoders, and no formats that name other files or addresses (playlists,
dash, sdp).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NoReturn

FORMATS = (
    "aac,ac3,aiff,amr,ape,asf,au,avi,avr,caf,dss,dts,eac3,flac,flv,gsm,iff,ircam,loas,matroska,mov,"
    "mp3,mpeg,mpegts,nistsphere,ogg,paf,pvf,qcp,sds,tta,voc,w64,wav,wv"
)
"""Demuxers that open no other files."""
CODECS = (
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
OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "format_whitelist": FORMATS,
        "codec_whitelist": CODECS,
        "protocol_whitelist": "",
        "max_streams": str(MAX_STREAMS),
        "err_detect": "crccheck",
    }
)
"""Options for `av.open` of a file object. With them FFmpeg cannot open a file by name."""


def refuse_to_open(url: str, flags: int, options: dict[str, str]) -> NoReturn:
    """Raise PermissionError: the `io_open` of `av.open` for what a file names."""
    raise PermissionError("a file with audio names another")


def is_decoded(codec: str) -> bool:
    """Return whether a decoder, by FFmpeg's name, is one of CODECS."""
    return codec in CODECS.split(",")
