"""Finite-state transducers as arrays, and as files of OpenFst that are read without parsing.

kaldifst adds arcs one by one, at about a million a second; whole arrays are written at once.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from conch.component.arrays import IntArray
from conch.wire.errors import ConfigError

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
_FST_MAGIC = 2125659606
_SYMBOLS_MAGIC = 2125658996
_VERSION = 2
_HAS_INPUT_SYMBOLS, _HAS_OUTPUT_SYMBOLS = 1, 2
_EXPANDED = 1
"""OpenFst's property bit of every transducer that is not made on demand."""


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
    places = np.lexsort([ilabels, sources])
    arcs = np.empty(len(sources), ARC)
    for name, values in zip(
        ("ilabel", "olabel", "cost", "target"), (ilabels, olabels, costs, targets), strict=True
    ):
        arcs[name] = values[places]
    first = np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=num_states))])
    ends = np.full(num_states, np.inf, np.float32)
    for state, cost in finals.items():
        ends[state] = cost
    return FstArrays(arcs, first, ends, start)


def write_fst(
    path: Path,
    fst: FstArrays,
    *,
    symbols: Sequence[tuple[str, Sequence[str]]] = (),
) -> None:
    """Write a constant transducer of OpenFst.

    Args:
        path: overwritten.
        fst: what to write.
        symbols: none, or the name and the symbols of the input's and of the output's table.
    """
    counts = np.diff(fst.first)
    states = np.empty(len(counts), STATE)
    states["final"] = fst.finals
    states["first"] = fst.first[:-1]
    states["arcs"] = counts
    for name, label in (("input_epsilons", "ilabel"), ("output_epsilons", "olabel")):
        epsilons = np.concatenate([[0], np.cumsum(fst.arcs[label] == 0)])
        states[name] = np.diff(epsilons[fst.first])
    flags = _HAS_INPUT_SYMBOLS | _HAS_OUTPUT_SYMBOLS if symbols else 0
    with path.open("wb") as file:
        file.write(struct.pack("<i", _FST_MAGIC))
        _write_text(file, "const")
        _write_text(file, "standard")
        sizes = len(states), len(fst.arcs)
        file.write(struct.pack("<iiQqqq", _VERSION, flags, _EXPANDED, fst.start, *sizes))
        for name, texts in symbols:
            file.write(struct.pack("<i", _SYMBOLS_MAGIC))
            _write_text(file, name)
            file.write(struct.pack("<qq", len(texts), len(texts)))
            for key, text in enumerate(texts):
                _write_text(file, text)
                file.write(struct.pack("<q", key))
        file.write(states.tobytes())
        file.write(fst.arcs.tobytes())


def _write_text(file: BinaryIO, text: str) -> None:
    data = text.encode()
    file.write(struct.pack("<i", len(data)) + data)


@dataclass(frozen=True, slots=True)
class FstFile:
    """A constant transducer of OpenFst, mapped into memory."""

    start: int
    states: NDArray[Any]
    """STATE `[S]`."""
    arcs: NDArray[Any]
    """ARC `[A]`: those of a state are side by side from its `first` on."""
    symbols: tuple[tuple[str, tuple[str, ...]], ...]
    """None, or the name and the symbols of the input's and of the output's table."""

    def arrays(self) -> FstArrays:
        """Return a copy in memory that may be changed."""
        first = np.concatenate([[0], np.cumsum(self.states["arcs"], dtype=np.int64)])
        return FstArrays(self.arcs.copy(), first, self.states["final"].copy(), self.start)


def open_fst(path: Path) -> FstFile:
    """Map a file as `write_fst` writes it, or kaldifst.

    Raises:
        ConfigError: the file is missing or another one, or it is cut short.
    """
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
    kind = _read_text(file), _read_text(file)
    version, flags, _, start, num_states, num_arcs = _numbers(file, "<iiQqqq")
    if kind != ("const", "standard") or version != _VERSION:
        raise ValueError(f"it is {'/'.join(kind)} {version}, not const/standard {_VERSION}")
    symbols = []
    for flag in (_HAS_INPUT_SYMBOLS, _HAS_OUTPUT_SYMBOLS):
        if not flags & flag:
            continue
        if _numbers(file, "<i") != (_SYMBOLS_MAGIC,):
            raise ValueError("its symbols begin otherwise")
        name = _read_text(file)
        _, count = _numbers(file, "<qq")
        texts = []
        for _ in range(count):
            texts.append(_read_text(file))
            file.seek(8, 1)
        symbols.append((name, tuple(texts)))
    place = file.tell()
    size = place + num_states * STATE.itemsize + num_arcs * ARC.itemsize
    if num_states < 1 or num_arcs < 0 or path.stat().st_size != size:
        raise ValueError(f"its size is {path.stat().st_size} bytes, not {size}")
    # As plain arrays: each index into a memmap itself takes a microsecond of Python.
    states = np.asarray(np.memmap(path, STATE, "r", place, (num_states,)))
    arcs: NDArray[Any] = np.zeros(0, ARC)  # nothing cannot be mapped
    if num_arcs:
        arcs = np.asarray(np.memmap(path, ARC, "r", place + states.nbytes, (num_arcs,)))
    return FstFile(start, states, arcs, tuple(symbols))


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
