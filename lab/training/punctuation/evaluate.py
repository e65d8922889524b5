"""Score punctuation and capitals against printed texts that were not learned from.

    python -m lab.training.punctuation.evaluate --texts test/*.txt
    python -m lab.training.punctuation.evaluate --manifest speech/manifest.tsv --split dev --graph

Texts are those of `collect`, in segments of whole sentences. Of a manifest, the texts with marks
and capitals count, each by itself; with --graph the recordings are recognised by the CTC model and
the graph that ship, and a mark is right after the word that is aligned. The baseline writes a
capital first and a period last.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import jiwer
import numpy as np
from numpy.typing import NDArray

from conch.decoding.graph.search import DecodingGraph
from conch.families.ctc import WEIGHTS
from conch.families.ctc.decoder import unpacked_graph
from conch.families.punctuation.model import LOWER, MARKS, PunctuatorConfig
from conch.families.punctuation.punctuator import Punctuator
from conch.scoring.error_rates import number, table
from conch.scoring.manifest import read_manifest
from lab.arguments import script_parser
from lab.training.ctc.scoring import ExportedModel, log_probs_of
from lab.training.ctc.texts import graph_texts
from lab.training.punctuation.written import PrintedWord, case_of, printed_words, words_of_line
from lab.waveforms import waveform_of

FLAGS = """
--model FILE       an .onnx of export (default: the shipped one)
--manifest FILE    recordings with printed texts
--split SPLIT...   of the manifest
--source SOURCE...  of the manifest
--graph            recognise the recordings
"""
SEGMENT_WORDS = 40
"""A segment of a text takes sentences until it has as many words."""
_NOTHING = PrintedWord("", LOWER, 0)
Writer = Callable[[Sequence[str]], Sequence[str]]
"""Texts in lower case without marks to texts with them."""


class Segment(NamedTuple):
    """A text as it is printed, in words."""

    source: str
    words: list[PrintedWord]
    path: Path | None = None
    """The recording, if there is one."""


def main(arguments: list[str] | None = None) -> None:
    parser = script_parser(__doc__, FLAGS, model="")
    parser.add_argument("--texts", type=Path, nargs="*", default=[])
    args = parser.parse_args(arguments)
    segments = [item for path in args.texts for item in segments_of_text(path)]
    if args.manifest:
        segments += [
            item
            for item in segments_of_manifest(args.manifest, args.split)
            if not args.source or item.source in args.source
        ]
    punctuator = Punctuator(PunctuatorConfig(model=args.model))

    def model(texts: Sequence[str]) -> list[str]:
        return [text for text, _ in punctuator.punctuate(texts)]

    inputs = recognised(segments) if args.graph else [spoken(item.words) for item in segments]
    rows = []
    sources = dict.fromkeys(segment.source for segment in segments)
    for source in (*sources, "all") if len(sources) > 1 else sources:
        own = [index for index, item in enumerate(segments) if source in (item.source, "all")]
        wanted, texts = [segments[index].words for index in own], [inputs[index] for index in own]
        for name, writer in (("baseline", first_and_last), ("model", model)):
            rows.append([source, *row_of(name, wanted, writer(texts))])
    signs = ("comma F1", "period F1", "question F1", "capital F1")
    print(table(["source", "words", "by", *signs, "case right %"], rows))


def segments_of_text(path: Path) -> Iterator[Segment]:
    """Yield whole sentences of a text, some at a time."""
    words: list[PrintedWord] = []
    for line in path.read_text().splitlines():
        for item in words_of_line(line):
            words.append(item)
            if MARKS[item.mark] in (".", "?") and len(words) >= SEGMENT_WORDS:
                yield Segment(path.stem, words)
                words = []
    if words:
        yield Segment(path.stem, words)


def segments_of_manifest(path: Path, splits: Sequence[str]) -> Iterator[Segment]:
    """Yield the texts of a manifest that have a capital and a mark."""
    for utterance in read_manifest(path):
        text = utterance.text
        is_printed = text != text.lower() and text != text.upper() and any(c in text for c in ",.?")
        if is_printed and (not splits or utterance.split in splits):
            words = printed_words(text, whole=False)
            if words:
                yield Segment(utterance.source, words, utterance.path)


def spoken(words: Iterable[PrintedWord]) -> str:
    return " ".join(item.word.lower() for item in words)


def recognised(segments: Sequence[Segment]) -> list[str]:
    """Return what the shipped CTC model and graph hear in each segment's recording."""
    model = ExportedModel(WEIGHTS / "ctc-en.onnx")
    waveforms = [waveform_of(item.path) for item in segments if item.path]
    graph = DecodingGraph(unpacked_graph(), model.units.vocab)
    return graph_texts(graph, log_probs_of(model, waveforms))


def first_and_last(texts: Sequence[str]) -> list[str]:
    """Return texts with a capital first and a period last, and I."""
    capital = (" ".join("I" if word == "i" else word for word in text.split()) for text in texts)
    return [f"{text[:1].upper()}{text[1:]}." for text in capital]


def row_of(name: str, wanted: Sequence[Sequence[PrintedWord]], texts: Sequence[str]) -> list[str]:
    pairs = [
        pair
        for words, text in zip(wanted, texts, strict=True)
        for pair in pairs_of(words, words_of_line(text))
    ]
    marks = np.array([(first.mark, second.mark) for first, second in pairs])
    cases = np.array([(case_of(first.word), case_of(second.word)) for first, second in pairs])
    scores = [f1(marks == MARKS.index(mark)) for mark in (",", ".", "?")]
    scores += [f1(cases != LOWER), float((cases[:, 0] == cases[:, 1]).mean())]
    return [str(len(pairs)), name, *(number(100 * score) for score in scores)]


def pairs_of(
    wanted: Sequence[PrintedWord], got: Sequence[PrintedWord]
) -> Iterator[tuple[PrintedWord, PrintedWord]]:
    """Yield the words of two texts, aligned; one without a partner has an empty one."""
    if not wanted or not got:
        yield from ((item, _NOTHING) for item in wanted)
        yield from ((_NOTHING, item) for item in got)
        return
    aligned = jiwer.process_words(spoken(wanted), spoken(got))
    for chunk in aligned.alignments[0]:
        first = wanted[chunk.ref_start_idx : chunk.ref_end_idx]
        second = got[chunk.hyp_start_idx : chunk.hyp_end_idx]
        yield from zip_longest(first, second, fillvalue=_NOTHING)


def f1(is_there: NDArray[np.bool_]) -> float:
    """Return the harmonic mean of precision and recall."""
    wanted, got = is_there.sum(axis=0)
    both = is_there.all(axis=1).sum()
    return float(2 * both / max(1, wanted + got))


if __name__ == "__main__":
    main()
