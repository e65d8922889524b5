"""Writes the table of docs/guide/options.md from `RecognitionOptions`, between its two markers."""

import re
from dataclasses import fields
from pathlib import Path

from conch.wire.options import RecognitionOptions, default_of, describe

DOCUMENT = Path(__file__).parents[1] / "docs" / "guide" / "options.md"
MARKED = re.compile(r"(<!-- options -->\n).*?(<!-- /options -->)", flags=re.S)


def table() -> str:
    """Return a row per option."""
    rows = ["| option | default | takes | meaning |\n", "| --- | --- | --- | --- |\n"]
    for item in fields(RecognitionOptions):
        default = default_of(item)
        takes = describe(item)
        rows.append(f"| `{item.name}` | {default} | {takes} | {item.metadata['help']} |\n")
    return "".join(rows)


def with_table(text: str) -> str:
    """Return the document with the table as it is now."""
    return MARKED.sub(lambda marks: marks[1] + table() + marks[2], text)


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text()))
