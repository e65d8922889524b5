"""Writes the lists of the guide: options, and parameters of models.

    python scripts/tables.py

Options are those that the families declare. Parameters are those of each config.pbtxt, whose
comments stand above them.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, NamedTuple

from conch.families import all_families, decoders
from conch.wire.option_values import default_of, describe
from conch.wire.options import all_options

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guide"
DOCUMENTS = (GUIDE / "options.md", GUIDE / "configuration.md")
MARKED = re.compile(r"(<!-- (options|presets|parameters) -->\n).*?(<!-- /\2 -->)", flags=re.S)
PARAMETER = re.compile(r'parameters \{ key: "(\w+)" value \{ string_value: "(.*)" \} \}')


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
            lines.append(f"- `{item.name}` ({known}): {item.metadata['help']}.\n")
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


class Parameter(NamedTuple):
    """A parameter as its config.pbtxt has it."""

    name: str
    value: str
    meaning: str
    """The comment above it, empty where there is none."""


def parameters(config: Path) -> Iterator[Parameter]:
    """Yield the parameters of a config.pbtxt, in its order."""
    comment: list[str] = []
    for line in config.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            comment.append(line.removeprefix("# "))
            continue
        if match := PARAMETER.fullmatch(line):
            yield Parameter(match[1], match[2], " ".join(comment))
        comment = []


def parameters_list() -> str:
    """Return a line per parameter, shared by the models in which it means the same."""
    models = defaultdict[tuple[str, str], dict[str, list[str]]](dict)
    for repository in ("bls_models", "component_models"):
        for config in sorted((ROOT / repository).glob("*/config.pbtxt")):
            for name, value, meaning in parameters(config):
                by_value = models[name, meaning]
                by_value.setdefault(value or "empty", []).append(f"`{config.parent.name}`")
    return "".join(
        f"- `{name}` ({_defaults(by_value)}): {meaning}\n"
        for (name, meaning), by_value in models.items()
    )


def _defaults(models: Mapping[str, list[str]]) -> str:
    return "; ".join(f"{value}: {', '.join(names)}" for value, names in models.items())


def with_tables(text: str) -> str:
    """Return a document with its lists and tables as they are now."""
    made = {
        "options": options_list(),
        "presets": presets_table(),
        "parameters": parameters_list(),
    }
    return MARKED.sub(lambda marks: marks[1] + made[marks[2]] + marks[3], text)


if __name__ == "__main__":
    for document in DOCUMENTS:
        document.write_text(with_tables(document.read_text(encoding="utf-8")), encoding="utf-8")
