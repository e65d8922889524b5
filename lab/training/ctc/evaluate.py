"""Print word error rates of a checkpoint or exported graph: by source and chunk.

    python -m lab.training.ctc.evaluate runs/first/final.pt --manifest speech/manifest.tsv

With --graph also by the decoding graph that comes with Conch, or one of `conch graph`; with
--rescore the n-best of that graph are rescored by an n-gram, as option rescore does it.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from conch.decoding.graph.search import DecodingGraph
from conch.decoding.ngram.model import LanguageModelConfig, load_language_model
from conch.families.ctc.decoder import unpacked_graph
from lab.training.ctc import checkpoint
from lab.training.ctc.data import some_utterances
from lab.training.ctc.graph_rescoring import best_texts, scored_lists
from lab.training.ctc.model import CtcModel
from lab.training.ctc.scoring import ExportedModel, greedy_texts, log_probs_of, word_errors
from lab.training.ctc.texts import graph_texts
from lab.training.ctc.trainer import STREAMING_LEFT
from lab.waveforms import waveform_of

_FRAME_MS = 20


def main(arguments: list[str] | None = None) -> None:
    """Evaluate as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("model", type=Path, help="a checkpoint, or an exported .onnx")
    add("--manifest", type=Path, required=True)
    add("--split", default="dev")
    add("--chunk-ms", type=int, nargs="*", default=[0, 160, 320, 640, 1280], help="0 is full")
    add("--left-ms", type=int, default=STREAMING_LEFT * _FRAME_MS, help="seen before a chunk")
    add("--language-model", default="", help="ARPA; en-us if left out")
    add("--graph", nargs="?", const="", metavar="FILE", help="search in a graph too")
    add("--rescore", action="store_true", help="rescore the n-best of the graph too")
    add("--limit", type=int, help="utterances, evenly taken; all if left out")
    args = parser.parse_args(arguments)
    if args.rescore and args.graph is None:
        parser.error("--rescore goes with --graph")

    model: CtcModel | ExportedModel
    if args.model.suffix == ".onnx":
        model = ExportedModel(args.model)
        units = model.units
    else:
        model, units = checkpoint.load_model(args.model)
        model.to("cuda" if torch.cuda.is_available() else "cpu")
    utterances = some_utterances(args.manifest, args.split, args.limit)
    waveforms = [waveform_of(item.path) for item in utterances]
    audio_s = sum(map(len, waveforms)) / 16_000
    table = Table([item.source for item in utterances], [item.text for item in utterances])
    if args.graph is not None:
        path = Path(args.graph) if args.graph else unpacked_graph()
        graph = DecodingGraph(path, units.vocab)
    if args.rescore:
        language_model = load_language_model(LanguageModelConfig(model=args.language_model))
    print(table.head, flush=True)
    for chunk_ms in args.chunk_ms:
        started = time.monotonic()
        log_probs = log_probs_of(
            model,
            waveforms,
            chunk_frames=chunk_ms // _FRAME_MS,
            left_frames=args.left_ms // _FRAME_MS,
        )
        rtfx = audio_s / (time.monotonic() - started)
        context = f"{chunk_ms} ms" if chunk_ms else "full"
        print(table.row(f"{context}, greedy", greedy_texts(log_probs, units)), flush=True)
        print(f"{context}: RTFx {rtfx:.0f}", file=sys.stderr)
        if args.graph is not None:
            texts = graph_texts(graph, log_probs)
            print(table.row(f"{context}, graph", texts), flush=True)
        if args.rescore:
            texts = best_texts(scored_lists(graph, language_model, log_probs))
            print(table.row(f"{context}, graph, rescored", texts), flush=True)


class Table:
    """Word error rates by source, as lines of Markdown."""

    def __init__(self, sources: Sequence[str], references: Sequence[str]) -> None:
        """Make a table for utterances of these sources."""
        self._sources, self._references = np.array(sources), references
        self._columns = sorted(set(sources))

    @property
    def head(self) -> str:
        """The first two lines."""
        names = ["WER %", *self._columns, "all"]
        return f"| {' | '.join(names)} |\n|{' --- |' * len(names)}"

    def row(self, name: str, texts: Sequence[str]) -> str:
        """Return the line of these texts."""
        rates = []
        for column in [*self._columns, None]:
            some = np.flatnonzero((self._sources == column) | (column is None))
            errors, words = word_errors(
                [self._references[index] for index in some], [texts[index] for index in some]
            )
            rates.append(f"{100 * errors / words:.2f}")
        return f"| {name} | {' | '.join(rates)} |"


if __name__ == "__main__":
    main()
