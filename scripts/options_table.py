"""Writes the list of options in docs/guide/options.md, and the table of their presets."""

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


def options_list() -> str:
    """Return a line per option, below the title of its group."""
    lines = []
    for title, items in groups():
        lines.append(f"\n**{title}**\n\n")
        for item in items:
            takes = _values(item)
            known = f"{takes}; default {default_of(item)}" if takes else default_of(item)
            lines.append(f"- `{item.name}` ({known}): {item.metadata['help']}\n")
    return "".join(lines)


def _values(item: "Field[Any]") -> str:
    """Return what an option takes, shorter than in its errors; nothing if its default shows it."""
    values = describe(item)
    if values == "a bool (true or false)":
        return ""
    return re.sub(r"^(one of|an integer from|a number from|a string) ?", "", values)


def presets_table() -> str:
    """Return a row per decoder with presets: the options that each value of `accuracy` sets."""
    rows = ["| `decoder` | `balanced` | `best` |\n", "| --- | --- | --- |\n"]
    for decoder in (item for item in decoders().values() if item.presets):
        cells = (", ".join(_set(decoder.presets.get(name, {}))) for name in ("balanced", "best"))
        rows.append(f"| `{decoder.name}` | {' | '.join(cells)} |\n")
    return "".join(rows)


def _set(preset: Mapping[str, Any]) -> Iterator[str]:
    for name, value in preset.items():
        yield f"`{name}`" if value is True else f"`{name}={value}`"


TABLES: Mapping[str, Any] = {
    "options": options_list,
    "presets": presets_table,
}


def with_tables(text: str) -> str:
    """Return the document with the tables as they are now."""
    return MARKED.sub(lambda marks: marks[1] + TABLES[marks[2]]() + marks[3], text)


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text()))
