"""Score punctuation and capitals against printed texts that were not learned from.

    python -m lab.training.punctuation.evaluate --texts test/*.txt
    python -m lab.training.punctuation.evaluate --manifest speech/manifest.tsv --source ljspeech

Texts are those of `collect`, in segments of whole sentences. Of a manifest, the texts with marks
and capitals count, each by itself. The baseline writes a capital first and a period last.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.bench.manifest import read_manifest
from conch.language.punctuation.model import LOWER, MARKS, PunctuatorConfig
from conch.language.punctuation.punctuator import Punctuator
from lab.training.punctuation.written import Heard, case_of, heard_words, words_of_line

SEGMENT_WORDS = 40
"""A segment of a text takes sentences until it has as many words."""
Writer = Callable[[Sequence[str]], Sequence[str]]
"""Texts in lower case without marks to texts with them."""


class Segment(NamedTuple):
    """A text as it is printed, in words."""

    source: str
    words: list[Heard]


def main(arguments: list[str] | None = None) -> None:
    """Evaluate as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--model", default="", help="an .onnx of export; the shipped one by default"
    )
    parser.add_argument("--texts", type=Path, nargs="*", default=[])
    parser.add_argument("--manifest", type=Path)
    parser.add_argument("--source", nargs="*", help="of the manifest")
    args = parser.parse_args(arguments)
    segments = [item for path in args.texts for item in segments_of_text(path)]
    if args.manifest:
        segments += segments_of_manifest(args.manifest, args.source)
    punctuator = Punctuator(PunctuatorConfig(model=args.model))

    def model(texts: Sequence[str]) -> list[str]:
        return [text for text, _ in punctuator.punctuate(texts)]

    print(
        "| source | words | by | comma F1 | period F1 | question F1 | capital F1 | case right % |\n"
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |"
    )
    sources = dict.fromkeys(segment.source for segment in segments)
    for source in (*sources, "all") if len(sources) > 1 else sources:
        own = [segment.words for segment in segments if source in (segment.source, "all")]
        for name, writer in (("baseline", first_and_last), ("model", model)):
            print(row_of(source, name, own, writer), flush=True)


def segments_of_text(path: Path) -> Iterator[Segment]:
    """Yield whole sentences of a text, some at a time."""
    words: list[Heard] = []
    for line in path.read_text().splitlines():
        for item in words_of_line(line):
            words.append(item)
            if MARKS[item.mark] in (".", "?") and len(words) >= SEGMENT_WORDS:
                yield Segment(path.stem, words)
                words = []
    if words:
        yield Segment(path.stem, words)


def segments_of_manifest(path: Path, sources: Sequence[str] | None) -> Iterator[Segment]:
    """Yield the texts of a manifest that have a capital and a mark."""
    for utterance in read_manifest(path):
        text = utterance.text
        is_printed = text != text.lower() and text != text.upper() and any(c in text for c in ",.?")
        if is_printed and (not sources or utterance.source in sources):
            words = heard_words(text, whole=False)
            if words:
                yield Segment(utterance.source, words)


def first_and_last(texts: Sequence[str]) -> list[str]:
    """Return texts with a capital first and a period last, and I."""
    capital = (" ".join("I" if word == "i" else word for word in text.split()) for text in texts)
    return [f"{text[:1].upper()}{text[1:]}." for text in capital]


def row_of(source: str, name: str, segments: Sequence[Sequence[Heard]], writer: Writer) -> str:
    """Return a row of the table."""
    texts = [" ".join(item.word.lower() for item in words) for words in segments]
    found = [words_of_line(text) for text in writer(texts)]
    pairs = [
        pair
        for wanted, got in zip(segments, found, strict=True)
        for pair in zip(wanted, got, strict=True)
    ]
    marks = np.array([(wanted.mark, got.mark) for wanted, got in pairs])
    cases = np.array([(case_of(wanted.word), case_of(got.word)) for wanted, got in pairs])
    scores = [f1(marks == MARKS.index(mark)) for mark in (",", ".", "?")]
    scores += [f1(cases != LOWER), float((cases[:, 0] == cases[:, 1]).mean())]
    shown = " | ".join(f"{100 * score:.1f}" for score in scores)
    return f"| {source} | {len(pairs)} | {name} | {shown} |"


def f1(is_there: NDArray[np.bool_]) -> float:
    """Return the harmonic mean of precision and recall.

    Args:
        is_there: bool `[N, 2]`: whether a place should have it, and whether it was given it.
    """
    wanted, got = is_there.sum(axis=0)
    both = is_there.all(axis=1).sum()
    return float(2 * both / max(1, wanted + got))


if __name__ == "__main__":
    main()
