"""Writes the list of docs/guide/configuration.md: every parameter of every model that ships.

    python scripts/configuration_table.py

Names, values and meanings are those of each config.pbtxt, whose comments stand above the
parameters.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "guide" / "configuration.md"
MARKED = re.compile(r"(<!-- parameters -->\n).*?(<!-- /parameters -->)", flags=re.S)
PARAMETER = re.compile(r'parameters \{ key: "(\w+)" value \{ string_value: "(.*)" \} \}')


@dataclass(frozen=True, slots=True)
class Parameter:
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


def configs() -> list[Path]:
    """Return every model's config.pbtxt, the entry points first."""
    return [
        path
        for repository in ("bls_models", "component_models")
        for path in sorted((ROOT / repository).glob("*/config.pbtxt"))
    ]


def parameters_list() -> str:
    """Return a line per parameter, shared by the models that have the same one."""
    models: dict[Parameter, list[str]] = {}
    for config in configs():
        for item in parameters(config):
            models.setdefault(item, []).append(f"`{config.parent.name}`")
    return "".join(
        f"- `{item.name}` ({item.value or 'empty'}; {', '.join(names)}): {item.meaning}\n"
        for item, names in models.items()
    )


def with_table(text: str) -> str:
    """Return the document with its list as it is now."""
    return MARKED.sub(lambda marks: marks[1] + parameters_list() + marks[2], text)


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
