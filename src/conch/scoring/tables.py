"""Markdown tables and their numbers."""

from collections.abc import Sequence

NOTHING = "-"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table: the first column aligned left, the numbers right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def number(value: float | None, digits: int = 1, *, sign: bool = False) -> str:
    """Return a number with `digits` decimals, or a dash for None."""
    if value is None:
        return NOTHING
    return f"{value:{'+' if sign else ''}.{digits}f}"


def percent(fraction: float | None, *, sign: bool = False) -> str:
    """Return a fraction in percent with two decimals, or a dash for None."""
    return number(None if fraction is None else 100 * fraction, 2, sign=sign)
