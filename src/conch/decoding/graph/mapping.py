"""Have kaldifst map graphs into memory instead of copying them."""

import ctypes
import functools
import logging

from kaldifst.lib import _kaldifst

logger = logging.getLogger(__name__)

_SET_FLAGS = "_Z8SetFlagsPKcPiPPPcbS0_"
"""OpenFst's `SetFlags(const char *, int *, char ***, bool, const char *)`."""


@functools.cache
def map_graphs() -> bool:
    """Set OpenFst's flag `--fst_read_mode=map`, for which kaldifst has no function of Python.

    It concerns aligned files, as `write_fst` writes them. Others are read as before.

    Returns:
        False where kaldifst was built without the flag; it copies all graphs then.
    """
    try:
        set_flags = getattr(ctypes.CDLL(_kaldifst.__file__), _SET_FLAGS)
    except (AttributeError, OSError) as error:
        logger.warning("kaldifst cannot map graphs, so each process has a copy: %s", error)
        return False
    arguments = (ctypes.c_char_p * 3)(b"conch", b"--fst_read_mode=map", None)
    first = ctypes.cast(arguments, ctypes.POINTER(ctypes.c_char_p))
    set_flags.argtypes = (
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.c_int),
        ctypes.POINTER(ctypes.POINTER(ctypes.c_char_p)),
        ctypes.c_bool,
        ctypes.c_char_p,
    )
    set_flags.restype = None
    set_flags(b"", ctypes.c_int(2), first, False, b"")
    return True
