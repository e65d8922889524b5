"""Finite-state transducers as arrays, and as files of OpenFst that are read without parsing.

kaldifst adds arcs one by one, at about a million a second; whole arrays are written at once.

`write_fst` aligns the states and the arcs, so that OpenFst can map them into memory. The symbols
stand behind them, where OpenFst does not look: it would keep a copy of them in each process.

    OpenFst's header, with the flag of aligned files and none of symbols
    states, arcs         STATE [S], ARC [A]
    for each table:
        name, count      text, int64
        ends             int64 [count]: where each symbol ends in the texts
        texts            uint8: the symbols, UTF-8, one after the other

States, arcs, tables and ends begin at multiples of 16 bytes.
"""

import ctypes
import functools
import logging
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import kaldifst
import numpy as np
from kaldifst.lib import _kaldifst
from numpy.typing import NDArray

from conch.component import IntArray
from conch.wire.errors import ConfigError

logger = logging.getLogger(__name__)

ARC = np.dtype([("ilabel", "<i4"), ("olabel", "<i4"), ("cost", "<f4"), ("target", "<i4")])
STATE = np.dtype(
    [
        ("final", "<f4"),
        ("first", "<u4"),
        ("arcs", "<u4"),
        ("input_epsilons", "<u4"),
        ("output_epsilons", "<u4"),
    ]
)
_LATTICE_STATE = np.dtype(
    [
        ("final", "<f4", 2),
        ("arcs", "<i8"),
        ("ilabel", "<i4"),
        ("olabel", "<i4"),
        ("cost", "<f4"),
        ("acoustic_cost", "<f4"),
        ("target", "<i4"),
    ]
)
"""A state of kaldifst's lattice and its only arc, as OpenFst writes them."""
_LATTICE_END = _LATTICE_STATE["final"].itemsize + _LATTICE_STATE["arcs"].itemsize
_FST_MAGIC = 2125659606
_SYMBOLS_MAGIC = 2125658996
_VERSION = 2
_HAS_INPUT_SYMBOLS, _HAS_OUTPUT_SYMBOLS, _IS_ALIGNED = 1, 2, 4
_ALIGNMENT = 16
"""OpenFst's alignment in bytes."""
_ENDS = np.dtype("<i8")
_EXPANDED = 1
"""OpenFst's property bit of every transducer that is not made on demand."""
# The names of GCC's ABI, with which kaldifst is built on Linux.
_READ_MODE = "_Z23FST_FLAGS_fst_read_modeB5cxx11"
"""OpenFst's flag `--fst_read_mode`, a `std::string`."""
_ASSIGN = "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6assignEPKc"
"""`std::string::assign(const char *)`."""


@dataclass(frozen=True, slots=True)
class FstArrays:
    """A transducer over the tropical semiring: costs are added up, the least counts."""

    arcs: NDArray[Any]
    """ARC `[A]`, those of one state side by side, in the order of the states."""
    first: IntArray
    """int64 `[S + 1]`: where the arcs of each state begin; the last is A."""
    finals: NDArray[np.float32]
    """float32 `[S]`: cost of ending in each state, infinity where it is none to end in."""
    start: int = 0

    @property
    def sources(self) -> IntArray:
        """int64 `[A]`: the state that each arc leaves."""
        return np.repeat(np.arange(len(self.finals)), np.diff(self.first))


def fst_arrays(
    num_states: int,
    sources: IntArray,
    ilabels: IntArray,
    olabels: IntArray,
    costs: NDArray[Any],
    targets: IntArray,
    *,
    finals: dict[int, float],
    start: int,
) -> FstArrays:
    """Return a transducer of arcs `[A]` in any order; a state's arcs are sorted by ilabel."""
    order = np.lexsort([ilabels, sources])
    arcs = np.empty(len(sources), ARC)
    for name, values in zip(
        ("ilabel", "olabel", "cost", "target"), (ilabels, olabels, costs, targets), strict=True
    ):
        arcs[name] = values[order]
    first = np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=num_states))])
    ends = np.full(num_states, np.inf, np.float32)
    for state, cost in finals.items():
        ends[state] = cost
    return FstArrays(arcs, first, ends, start)


def write_fst(
    path: Path, fst: FstArrays, *, symbols: Sequence[tuple[str, Sequence[str]]] = ()
) -> None:
    """Write a constant transducer of OpenFst; `symbols` are as in `FstFile`."""
    counts = np.diff(fst.first)
    states = np.empty(len(counts), STATE)
    states["final"] = fst.finals
    states["first"] = fst.first[:-1]
    states["arcs"] = counts
    for name, label in (("input_epsilons", "ilabel"), ("output_epsilons", "olabel")):
        epsilons = np.concatenate([[0], np.cumsum(fst.arcs[label] == 0)])
        states[name] = np.diff(epsilons[fst.first])
    with path.open("wb") as file:
        file.write(struct.pack("<i", _FST_MAGIC))
        _write_text(file, "const")
        _write_text(file, "standard")
        sizes = len(states), len(fst.arcs)
        file.write(struct.pack("<iiQqqq", _VERSION, _IS_ALIGNED, _EXPANDED, fst.start, *sizes))
        for array in (states, fst.arcs):
            _align(file)
            file.write(array.tobytes())
        for name, texts in symbols:
            _align(file)
            encoded = [text.encode() for text in texts]
            _write_text(file, name)
            file.write(struct.pack("<q", len(encoded)))
            _align(file)
            file.write(np.cumsum([len(text) for text in encoded], dtype=_ENDS).tobytes())
            file.write(b"".join(encoded))


def to_kaldifst(fst: FstArrays) -> Any:
    """Return a transducer as a `kaldifst.StdVectorFst`."""
    with open(os.memfd_create("fst"), "wb") as file:
        path = Path(f"/proc/self/fd/{file.fileno()}")
        write_fst(path, fst)
        return kaldifst.StdVectorFst(kaldifst.StdConstFst.read(str(path)))


def from_kaldifst(fst: Any) -> FstArrays:
    with open(os.memfd_create("fst"), "rb") as file:
        path = Path(f"/proc/self/fd/{file.fileno()}")
        kaldifst.StdConstFst(fst).write(str(path))
        return open_fst(path).arrays()


def lattice_path(path: Any) -> NDArray[Any]:
    """Return the arcs of a lattice of kaldifst that is a single path, from its start.

    Its states are in the order of the path. The arcs, `[N]`, have `ilabel`, `olabel`, `cost` of the
    graph and `acoustic_cost`. Reading them one by one from kaldifst takes twelve times as long as
    to write and read them all.
    """
    with os.fdopen(os.memfd_create("path"), "rb") as file:
        path.write(f"/proc/self/fd/{file.fileno()}")
        data = file.read()
    count = path.num_states - 1
    offset = len(data) - count * _LATTICE_STATE.itemsize - _LATTICE_END
    states = np.frombuffer(data, _LATTICE_STATE, count, offset)
    assert np.array_equal(states["target"], np.arange(1, count + 1))
    return states


def _align(file: BinaryIO) -> None:
    file.write(bytes(_aligned(file.tell()) - file.tell()))


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _write_text(file: BinaryIO, text: str) -> None:
    data = text.encode()
    file.write(struct.pack("<i", len(data)) + data)


class SymbolTable(Sequence[str]):
    """Symbols as bytes, which may be mapped; a text is made when it is read."""

    def __init__(self, ends: NDArray[np.int64], texts: NDArray[np.uint8]) -> None:
        """Take what `write_fst` wrote: int64 `[N]` and uint8."""
        self._ends = ends
        self._texts = texts

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        position = range(len(self))[index]
        first = self._ends[position - 1] if position else 0
        return self._texts[first : self._ends[position]].tobytes().decode()


@dataclass(frozen=True, slots=True)
class FstFile:
    """A constant transducer of OpenFst, mapped into memory."""

    start: int
    states: NDArray[Any]
    """STATE `[S]`."""
    arcs: NDArray[Any]
    """ARC `[A]`: those of a state are side by side from its `first` on."""
    symbols: tuple[tuple[str, Sequence[str]], ...]
    """Empty, or the name and the symbols of the input's and of the output's table."""

    def arrays(self) -> FstArrays:
        """Return a copy in memory that may be changed."""
        first = np.concatenate([[0], np.cumsum(self.states["arcs"], dtype=np.int64)])
        return FstArrays(self.arcs.copy(), first, self.states["final"].copy(), self.start)


def open_fst(path: Path) -> FstFile:
    """Map a file as `write_fst` writes it, or kaldifst with the symbols in front."""
    try:
        with path.open("rb") as file:
            return _opened(path, file)
    except OSError as error:
        raise ConfigError(f"the graph {path} cannot be read: {error.strerror}") from error
    except (EOFError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(f"the graph {path} is not one of OpenFst, or broken: {error}") from error


def _opened(path: Path, file: BinaryIO) -> FstFile:
    if _numbers(file, "<i") != (_FST_MAGIC,):
        raise ValueError("it begins otherwise")
    fst_type = _read_text(file), _read_text(file)
    version, flags, _, start, num_states, num_arcs = _numbers(file, "<iiQqqq")
    if fst_type != ("const", "standard") or version != _VERSION:
        raise ValueError(f"it is {'/'.join(fst_type)} {version}, not const/standard {_VERSION}")
    symbols: list[tuple[str, Sequence[str]]] = []
    for flag in (_HAS_INPUT_SYMBOLS, _HAS_OUTPUT_SYMBOLS):
        if flags & flag:
            symbols.append(_symbols_in_front(file))
    if num_states < 1 or num_arcs < 0:
        raise ValueError(f"it has {num_states} states and {num_arcs} arcs")
    aligned = _aligned if flags & _IS_ALIGNED else int
    first_state = aligned(file.tell())
    first_arc = aligned(first_state + num_states * STATE.itemsize)
    end = first_arc + num_arcs * ARC.itemsize
    size = path.stat().st_size
    while flags & _IS_ALIGNED and end < size:
        file.seek(_aligned(end))
        table, end = _symbols_behind(path, file)
        symbols.append(table)
    if size != end:
        raise ValueError(f"its size is {size} bytes, not {end}")
    states = _mapped(path, STATE, first_state, num_states)
    return FstFile(start, states, _mapped(path, ARC, first_arc, num_arcs), tuple(symbols))


def _symbols_in_front(file: BinaryIO) -> tuple[str, tuple[str, ...]]:
    if _numbers(file, "<i") != (_SYMBOLS_MAGIC,):
        raise ValueError("its symbols begin otherwise")
    name = _read_text(file)
    _, count = _numbers(file, "<qq")
    texts = []
    for _ in range(count):
        texts.append(_read_text(file))
        file.seek(8, 1)
    return name, tuple(texts)


def _symbols_behind(path: Path, file: BinaryIO) -> tuple[tuple[str, SymbolTable], int]:
    name = _read_text(file)
    (count,) = _numbers(file, "<q")
    offset = _aligned(file.tell())
    behind = offset + count * _ENDS.itemsize
    if count < 1 or behind > path.stat().st_size:
        raise ValueError(f"it has a table of {count} symbols")
    ends = _mapped(path, _ENDS, offset, count)
    size = int(ends[-1])
    if size < 0 or behind + size > path.stat().st_size:
        raise ValueError("it ends within its symbols")
    return (name, SymbolTable(ends, _mapped(path, np.dtype(np.uint8), behind, size))), behind + size


def _mapped(path: Path, dtype: np.dtype[Any], offset: int, count: int) -> NDArray[Any]:
    if not count:  # nothing cannot be mapped
        return np.zeros(0, dtype)
    # As plain arrays: each index into a memmap itself takes a microsecond of Python.
    return np.asarray(np.memmap(path, dtype, "r", offset, (count,)))


def _numbers(file: BinaryIO, form: str) -> tuple[int, ...]:
    data = file.read(struct.calcsize(form))
    if len(data) < struct.calcsize(form):
        raise EOFError("it ends too soon")
    return struct.unpack(form, data)


def _read_text(file: BinaryIO) -> str:
    (length,) = _numbers(file, "<i")
    if not 0 <= length < 1 << 20:
        raise ValueError(f"a text of {length} bytes")
    return file.read(length).decode()


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
