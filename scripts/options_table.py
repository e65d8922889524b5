"""Writes the tables of docs/guide/options.md: options and their presets."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from conch.families import all_families, decoders
from conch.wire.option_values import default_of, describe
from conch.wire.options import all_options

DOCUMENT = Path(__file__).parents[1] / "docs" / "guide" / "options.md"
MARKED = re.compile(r"(<!-- (options|presets) -->\n).*?(<!-- /\2 -->)", flags=re.S)


def groups() -> Iterator[tuple[str, list["Field[Any]"]]]:
    """Yield the options of every path, then those of each family, below a title."""
    known = dict(all_options())
    of_families = {
        family.title: [known.pop(item.name) for item in fields(family.options)]
        for family in all_families()
        if family.options
    }
    yield "Every path", list(known.values())
    yield from of_families.items()


def options_table() -> str:
    """Return a row per option."""
    rows = ["| option | default | takes | meaning |\n", "| --- | --- | --- | --- |\n"]
    for title, items in groups():
        rows.append(f"| **{title}** | | | |\n")
        for item in items:
            meaning = item.metadata["help"]
            rows.append(f"| `{item.name}` | {default_of(item)} | {_values(item)} | {meaning} |\n")
    return "".join(rows)


def _values(item: "Field[Any]") -> str:
    """Return what an option takes, shorter than in its errors."""
    short = {"a bool (true or false)": "true or false", "a string": "text"}
    values = describe(item)
    return short.get(values) or re.sub(r"^(one of|an integer from|a number from) ", "", values)


def presets_table() -> str:
    """Return a row per decoder: the options that each value of `accuracy` sets."""
    rows = ["| `decoder` | `balanced` | `best` |\n", "| --- | --- | --- |\n"]
    for decoder in (item for item in decoders().values() if item.components):
        cells = (", ".join(_set(decoder.presets.get(name, {}))) for name in ("balanced", "best"))
        rows.append(f"| `{decoder.name}` | {' | '.join(cells)} |\n")
    return "".join(rows)


def _set(preset: Mapping[str, Any]) -> Iterator[str]:
    for name, value in preset.items():
        yield f"`{name}`" if value is True else f"`{name}={value}`"


TABLES: Mapping[str, Any] = {
    "options": options_table,
    "presets": presets_table,
}


def with_tables(text: str) -> str:
    """Return the document with the tables as they are now."""
    return MARKED.sub(lambda marks: marks[1] + TABLES[marks[2]]() + marks[3], text)


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text()))
