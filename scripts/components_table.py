"""Writes the tables of component_models/README.md: the tensors that the families declare."""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from conch.families import traits
from conch.families.family import ComponentInfo, TensorInfo

DOCUMENT = Path(__file__).parents[1] / "component_models" / "README.md"
MARKED = re.compile(r"(<!-- tensors of (\w+) -->\n).*?(<!-- /tensors -->)", flags=re.S)


def table(component: ComponentInfo) -> str:
    """Return a row per tensor, or one for those in a row that are alike."""
    rows = ["| tensor | type, dims | meaning |\n", "| --- | --- | --- |\n"]
    for direction, tensors in (("in", component.inputs), ("out", component.outputs)):
        rows += (f"| {direction} {row}" for row in _rows(tensors))
    return "".join(rows)


def with_tables(text: str) -> str:
    """Return the document with the tables as they are now."""
    components = traits()
    return MARKED.sub(lambda marks: marks[1] + table(components[marks[2]]) + marks[3], text)


def _rows(tensors: tuple[TensorInfo, ...]) -> Iterator[str]:
    def what(tensor: TensorInfo) -> tuple[str, str]:
        form = f"{tensor.datatype} {list(tensor.dims)}"
        return form + (", optional" if tensor.is_optional else ""), tensor.meaning

    for (form, meaning), alike in groupby(tensors, what):
        names = ", ".join(f"`{tensor.name}`" for tensor in alike)
        yield f"{names} | {form} | {meaning} |\n"


def without_section(text: str) -> list[str]:
    """Return the components that have no table in a document."""
    shown = {marks[2] for marks in MARKED.finditer(text)}
    return sorted(traits().keys() - shown)


if __name__ == "__main__":
    TEXT = DOCUMENT.read_text()
    DOCUMENT.write_text(with_tables(TEXT))
    if missing := without_section(TEXT):
        print(
            f"no table for {', '.join(missing)}: {DOCUMENT.name} lacks the lines "
            f"<!-- tensors of {missing[0]} --> and <!-- /tensors -->, and so on"
        )
