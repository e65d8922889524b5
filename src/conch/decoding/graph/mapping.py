"""Have kaldifst map graphs into memory instead of copying them."""

import ctypes
import functools
import logging
from typing import Any

from kaldifst.lib import _kaldifst

logger = logging.getLogger(__name__)

# The names of GCC's ABI, with which kaldifst is built on Linux.
_READ_MODE = "_Z23FST_FLAGS_fst_read_modeB5cxx11"
"""OpenFst's flag `--fst_read_mode`, a `std::string`."""
_ASSIGN = "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6assignEPKc"
"""`std::string::assign(const char *)`."""


@functools.cache
def map_graphs() -> bool:
    """Set OpenFst's flag `--fst_read_mode` to map, for which kaldifst has no function of Python.

    It concerns aligned files, as `write_fst` writes them. Others are read as before. OpenFst's
    `SetFlags` will not do: it may set the flag of kaldi-decoder, which has an OpenFst too. Return
    False where kaldifst was built without the flag; it copies all graphs then.
    """
    try:
        flag = ctypes.c_char.in_dll(ctypes.CDLL(_kaldifst.__file__), _READ_MODE)
        assign: Any = getattr(ctypes.CDLL("libstdc++.so.6"), _ASSIGN)
    except (AttributeError, OSError, ValueError) as error:
        logger.warning("kaldifst cannot map graphs, so each process has a copy: %s", error)
        return False
    assign.argtypes, assign.restype = (ctypes.c_void_p, ctypes.c_char_p), ctypes.c_void_p
    assign(ctypes.addressof(flag), b"map")
    options = _kaldifst.FstReadOptions("")
    return bool(options.mode == options.read_mode("map"))
