"""Files of exported models, of whatever family: which one is taken, its header, its tokens."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conch.catalogue.checks import UnfitModelError
from conch.catalogue.onnx_header import FLOAT16, GraphHeader, read_header
from conch.wire.errors import ConfigError

PRECISIONS = ("float32", "int8")
BLANKS = ("<blk>", "<blank>", "<eps>")
TOKENS = "tokens.txt"
_INT8, _HALF = re.compile(r"[._-](int8|quant|quantized)\b"), re.compile(r"[._-]fp16\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network of a folder, as a model of its own."""

    part: str
    """Name among the networks of the folder."""
    path: Path
    header: GraphHeader
    takes: str
    """What its caller computes, in words."""
    keeper: str = ""
    """The component that keeps what it heard from call to call; empty where nothing is kept."""


def check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise ConfigError(
            f"parameter 'precision' takes {' or '.join(PRECISIONS)}; is: {precision!r:.40}"
        )


def files_in(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a name in a folder, or in the folders inside it, as Vosk has them."""
    for place in (pattern, f"*/{pattern}"):
        if found := sorted(path for path in folder.glob(place) if path.is_file()):
            return found
    return []


def chosen_file(folder: Path, part: str, precision: str) -> Path | None:
    """Return the file of a part whose name has it in it; None without one.

    Of several it is that in float32, or with the `precision` int8 that in int8.
    """
    return of_precision(files_in(folder, f"*{part}*.onnx"), part, precision)


def of_precision(files: Sequence[Path], part: str, precision: str) -> Path | None:
    """Return the one of files for the same `part` that has a precision; see `chosen_file`."""
    int8 = [path for path in files if _INT8.search(path.name)]
    half = [path for path in files if _HALF.search(path.name)]
    plain = [path for path in files if path not in (*int8, *half)]
    first, second = (int8, plain) if precision == "int8" else (plain, int8)
    found = first or second or half
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise UnfitModelError(f"it has several files for the {part}: {names}; leave one of them")
    return found[0] if found else None


def header_of(path: Path) -> GraphHeader:
    """Return the header of a network that is whole and runs on a CPU."""
    try:
        header = read_header(path)
    except ValueError as error:
        raise UnfitModelError(f"its {path.name} is no ONNX model: {error}") from None
    if not header.inputs or not header.outputs:
        raise UnfitModelError(f"its {path.name} is no ONNX model: it has no inputs or no outputs")
    for name in sorted(header.external):
        if not (path.parent / name).is_file():
            raise UnfitModelError(f"it lacks {name}, which holds weights of {path.name}")
    if any(item.kind == FLOAT16 for item in (*header.inputs, *header.outputs)):
        raise UnfitModelError(
            f"its {path.name} takes float16, which needs a GPU: export it in float32 or int8"
        )
    return header


def whole_number(header: GraphHeader, path: Path, key: str, least: int = 1) -> int:
    """Return a number of the metadata that is `least` or more."""
    value = header.metadata.get(key, "")
    if not value.isdecimal() or int(value) < least:
        raise UnfitModelError(
            f"the metadata of its {path.name} have no number {key!r}, as an export has it"
        )
    return int(value)


def read_tokens(path: Path, size: int, part: str = "joiner", *, blank: int = 0) -> tuple[str, ...]:
    """Return the symbols of a model whose unit `blank` is that; see `read_symbols`."""
    symbols = read_symbols(path, size, part)
    for unit, text in enumerate(symbols):
        if unit != blank and text in BLANKS:
            raise UnfitModelError(
                f"the blank of its {TOKENS} is unit {unit}; that of such a model is unit {blank}"
            )
    return symbols


def check_distinct(symbols: Sequence[str], name: str) -> None:
    """Check that no two units of the file `name` write the same."""
    most, times = Counter(text.replace("▁", " ") for text in symbols).most_common(1)[0]
    if times > 1:
        raise UnfitModelError(f"its {name} has {times} units {most!r:.40}")


def read_symbols(path: Path, size: int, part: str) -> tuple[str, ...]:
    """Return the symbols of a model whose `part` writes `size` units, by their numbers.

    Symbols behind them that begin with # are of a lexicon, and are left out.
    """
    symbols: dict[int, str] = {}
    for number, line in enumerate(path.read_text("utf-8", "replace").split("\n"), 1):
        # Not `split()`: a wide space is a symbol.
        *symbol, unit = re.split("[ \t]+", line.strip(" \t\r"))
        if len(symbol) > 1 or not (unit.isdecimal() or not (unit or symbol)):
            raise UnfitModelError(f"line {number} of its {path.name} is no symbol and number")
        if unit:
            symbols[int(unit)] = symbol[0] if symbol else " "
    more = [text for unit, text in symbols.items() if unit >= size and not text.startswith("#")]
    num_units = sum(unit < size for unit in symbols)
    if more or num_units < size:
        raise UnfitModelError(
            f"its {path.name} has {num_units + len(more)} units and its {part} writes {size}: they "
            "are of different models"
        )
    return tuple(symbols[unit] for unit in range(size))
