"""Gather training texts: a line for each paragraph, as `written.line_of` writes it.

    python -m lab.training.punctuation.collect --clones clones --out texts
    python -m lab.training.punctuation.collect --plain sentences.txt --name sentences --out texts

Clones are those of books of https://github.com/standardebooks (CC0), bare or not, one folder each.
`books.tsv` beside this file names those of the model that ships.
"""

import argparse
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from lab.training.punctuation.written import heard_words, line_of

BOOKS = Path(__file__).parent / "books.tsv"
_XHTML = "{http://www.w3.org/1999/xhtml}"
_TYPE = "{http://www.idpf.org/2007/ops}type"
_NO_PROSE = ("z3998:verse", "z3998:poem", "z3998:song", "z3998:letter", "noteref", "se:roman")
_NO_CHAPTERS = (
    *("titlepage", "imprint", "colophon", "uncopyright", "halftitlepage", "endnotes", "loi"),
    *("epigraph", "dedication", "toc", "glossary", "bibliography", "index"),
)


def main(arguments: list[str] | None = None) -> None:
    """Collect as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--clones", type=Path, help="folder of clones of Standard Ebooks")
    parser.add_argument("--plain", type=Path, nargs="*", default=[], help="a paragraph a line")
    parser.add_argument("--name", help="of the text made from --plain")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.clones:
        for row in BOOKS.read_text().splitlines()[1:]:
            book = row.split("\t")[0]
            write(args.out / f"{book}.txt", paragraphs_of_book(args.clones / book))
    if args.plain:
        lines = (line for path in args.plain for line in path.read_text(errors="replace").split("\n"))
        write(args.out / f"{args.name}.txt", lines)


def write(path: Path, paragraphs: Iterator[str]) -> None:
    """Write the words of paragraphs, every fifth with numbers in digits."""
    lines = []
    for index, paragraph in enumerate(paragraphs):
        words = heard_words(paragraph, spell=index % 5 > 0)
        if words:
            lines.append(line_of(words))
    path.write_text("\n".join(lines) + "\n")
    print(f"{path}: {sum(len(line.split()) for line in lines):,} words", flush=True)


def paragraphs_of_book(clone: Path) -> Iterator[str]:
    """Return the paragraphs of prose of a book's clone."""
    folder = "src/epub/text/"
    names = _git(clone, "ls-tree", "--name-only", "HEAD", folder).split()
    for name in names:
        chapter = name.removeprefix(folder).removesuffix(".xhtml")
        if name.endswith(".xhtml") and "." not in chapter and not chapter.startswith(_NO_CHAPTERS):
            yield from paragraphs_of_chapter(_git(clone, "show", f"HEAD:{name}"))


def paragraphs_of_chapter(xhtml: str) -> Iterator[str]:
    """Return the paragraphs of prose of a chapter."""
    yield from _paragraphs(ElementTree.fromstring(xhtml.encode()))


def _paragraphs(element: ElementTree.Element) -> Iterator[str]:
    kind = element.get(_TYPE, "")
    if any(name in kind for name in _NO_PROSE) or element.tag == f"{_XHTML}header":
        return
    if element.tag == f"{_XHTML}p":
        yield " ".join(_text(element).split())
        return
    for child in element:
        yield from _paragraphs(child)


def _text(element: ElementTree.Element) -> str:
    parts = [element.text or ""]
    for child in element:
        if "noteref" not in child.get(_TYPE, ""):
            parts.append(_text(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _git(clone: Path, *arguments: str) -> str:
    command = ["git", "-C", str(clone), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
