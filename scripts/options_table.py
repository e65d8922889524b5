"""Writes the tables of docs/guide/options.md: options, their presets, what excludes what."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from conch.families import all_families, decoders, takers
from conch.wire.option_values import default_of, describe
from conch.wire.options import all_options, all_rules

DOCUMENT = Path(__file__).parents[1] / "docs" / "guide" / "options.md"
MARKED = re.compile(r"(<!-- (options|presets|contradictions) -->\n).*?(<!-- /\2 -->)", flags=re.S)


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


def contradictions_list() -> str:
    """Return a line per rule, in the words of its error and the order of the options."""
    rules = [
        (item.name, f"goes with decoder {' or '.join(taken_by)}")
        for item in all_options().values()
        if (taken_by := takers(item))
    ]
    for message in dict.fromkeys(rule.message for rule in all_rules()):
        found = re.fullmatch(r"option '(\w+)' (.*)", _without_values(message))
        assert found, message
        rules.append((found[1], found[2]))
    order = list(all_options())
    rules.sort(key=lambda item: order.index(item[0]))
    return "".join(f"- `{name}` {rule}\n" for name, rule in rules)


def _without_values(message: str) -> str:
    """Return an error without what was sent: {name} in brackets, or between semicolons."""
    message = re.sub(r" \([^()]*\{[^()]*\)", "", message)
    return re.sub(r"; [^;]*\{[^;]*", "", message)


TABLES: Mapping[str, Any] = {
    "options": options_table,
    "presets": presets_table,
    "contradictions": contradictions_list,
}


def with_tables(text: str) -> str:
    """Return the document with the tables as they are now."""
    return MARKED.sub(lambda marks: marks[1] + TABLES[marks[2]]() + marks[3], text)


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text()))
