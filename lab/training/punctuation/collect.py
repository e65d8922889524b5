"""Gather training texts: a line for each paragraph, as `written.line_of` writes it.

    python -m lab.training.punctuation.collect --clones clones --out texts
    python -m lab.training.punctuation.collect --plain sentences.txt --name sentences --shuffle \
        --without texts/test/*.txt --out texts

Clones are those of books of https://github.com/standardebooks, one folder each, bare or not.
`books.tsv` in this folder names those of the model that ships; its tests go to OUT/test. Those to
learn from are by authors who died before 1956, as later ones are free in the United States alone.
"""

import random
import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from conch.language import language_model_words
from lab.arguments import script_parser
from lab.training.punctuation.written import line_of, printed_words

FLAGS = """
--clones FOLDER  clones of Standard Ebooks
--name NAME      of the text made from --plain
--shuffle        the lines of --plain
--out FOLDER!    for the texts
"""
BOOKS = Path(__file__).parent / "books.tsv"
SHARED_WORDS = 5
"""A sentence that shares this many words in a row with a text to do without is left out."""
_STAGE_DIRECTION = re.compile(r"[(\[](?:Applause|Laughter)[^)\]]*[)\]]")
_XHTML = "{http://www.w3.org/1999/xhtml}"
_TYPE = "{http://www.idpf.org/2007/ops}type"
_NO_PROSE = ("z3998:verse", "z3998:poem", "z3998:song", "z3998:letter", "noteref", "se:roman")
_NO_CHAPTERS = (
    *("titlepage", "imprint", "colophon", "uncopyright", "halftitlepage", "endnotes", "loi"),
    *("epigraph", "dedication", "toc", "glossary", "bibliography", "index"),
)


def main(arguments: list[str] | None = None) -> None:
    parser = script_parser(__doc__, FLAGS)
    texts = partial(parser.add_argument, type=Path, nargs="*", default=[])
    texts("--plain", help="a paragraph a line")
    texts("--without", help="texts that --plain must not quote")
    args = parser.parse_args(arguments)
    if args.clones:
        for row in BOOKS.read_text().splitlines()[1:]:
            book, _, split = row.split("\t")
            folder = args.out / "test" if split == "test" else args.out
            write(folder / f"{book}.txt", paragraphs_of_book(args.clones / book))
    if args.plain:
        lines = list(lines_of(args.plain, args.without))
        if args.shuffle:
            random.Random(1).shuffle(lines)
        write(args.out / f"{args.name}.txt", lines)


def lines_of(paths: Iterable[Path], without: Iterable[Path]) -> Iterator[str]:
    """Yield the lines of files, but titles in capitals, applause, and what others quote."""
    known = {run for path in without for line in _lines(path) for run in _runs(line)}
    for path in paths:
        for line in _lines(path):
            said = _STAGE_DIRECTION.sub("", line).strip()
            if said != said.upper() and known.isdisjoint(_runs(said)):
                yield said


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _runs(line: str) -> Iterator[tuple[str, ...]]:
    words = language_model_words(line)
    for start in range(max(1, len(words) - SHARED_WORDS + 1)):
        yield tuple(words[start : start + SHARED_WORDS])


def write(path: Path, paragraphs: Iterable[str]) -> None:
    """Write the words of paragraphs, every fifth with numbers in digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for index, paragraph in enumerate(paragraphs):
        words = printed_words(paragraph, spell=index % 5 > 0)
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
    yield from _paragraphs(ElementTree.fromstring(xhtml.encode()))


def _paragraphs(element: ElementTree.Element) -> Iterator[str]:
    role = element.get(_TYPE, "")
    if any(name in role for name in _NO_PROSE) or element.tag == f"{_XHTML}header":
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
