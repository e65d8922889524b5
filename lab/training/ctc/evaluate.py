"""Print word error rates of a checkpoint or exported graph: by source and chunk.

    python -m lab.training.ctc.evaluate runs/first/final.pt --manifest speech/manifest.tsv

With --graph also by the decoding graph that comes with Conch, or one of `conch graph`; with
--rescore the n-best of that graph are rescored by an n-gram, as option rescore does it.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from conch.decoding.graph.search import DecodingGraph
from conch.decoding.ngram.model import LanguageModelConfig, load_language_model
from conch.families.ctc.decoder import unpacked_graph
from conch.scoring.error_rates import percent, word_error_rate
from lab.arguments import script_parser
from lab.training.ctc import checkpoint
from lab.training.ctc.data import some_utterances
from lab.training.ctc.model import CtcModel
from lab.training.ctc.scoring import ExportedModel, greedy_texts, log_probs_of
from lab.training.ctc.texts import best_texts, graph_texts, scored_lists
from lab.training.ctc.trainer import STREAMING_LEFT
from lab.waveforms import waveform_of

_FRAME_MS = 20
FLAGS = f"""
--manifest FILE!        utterances and their texts
--split SPLIT=dev       of the manifest
--left-ms COUNT={STREAMING_LEFT * _FRAME_MS}  seen before a chunk
--language-model FILE   ARPA (default: en-us)
--rescore               rescore the n-best of the graph too
--limit N               utterances, evenly taken; all if left out
"""


def main(arguments: list[str] | None = None) -> None:
    parser = script_parser(__doc__, FLAGS, language_model="")
    add = parser.add_argument
    add("model", type=Path, help="a checkpoint, or an exported .onnx")
    add("--chunk-ms", type=int, nargs="*", default=[0, 160, 320, 640, 1280], help="0 is full")
    add("--graph", nargs="?", const="", metavar="FILE", help="search in a graph too")
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
    table = Table([item.source for item in utterances], [item.text for item in utterances])
    if args.graph is not None:
        path = Path(args.graph) if args.graph else unpacked_graph()
        graph = DecodingGraph(path, units.vocab)
    if args.rescore:
        language_model = load_language_model(LanguageModelConfig(model=args.language_model))
    print(table.head, flush=True)
    for chunk_ms in args.chunk_ms:
        log_probs = log_probs_of(
            model,
            waveforms,
            chunk_frames=chunk_ms // _FRAME_MS,
            left_frames=args.left_ms // _FRAME_MS,
        )
        context = f"{chunk_ms} ms" if chunk_ms else "full"
        print(table.row(f"{context}, greedy", greedy_texts(log_probs, units)), flush=True)
        if args.graph is not None:
            texts = graph_texts(graph, log_probs)
            print(table.row(f"{context}, graph", texts), flush=True)
        if args.rescore:
            texts = best_texts(scored_lists(graph, language_model, log_probs))
            print(table.row(f"{context}, graph, rescored", texts), flush=True)


class Table:
    """Word error rates by source, as lines of Markdown."""

    def __init__(self, sources: Sequence[str], references: Sequence[str]) -> None:
        self._sources, self._references = np.array(sources), references
        self._columns = sorted(set(sources))

    @property
    def head(self) -> str:
        names = ["WER %", *self._columns, "all"]
        return f"| {' | '.join(names)} |\n|{' --- |' * len(names)}"

    def row(self, name: str, texts: Sequence[str]) -> str:
        rates = []
        for column in [*self._columns, None]:
            some = np.flatnonzero((self._sources == column) | (column is None))
            references = [self._references[index] for index in some]
            rates.append(percent(word_error_rate(references, [texts[index] for index in some])))
        return f"| {name} | {' | '.join(rates)} |"


if __name__ == "__main__":
    main()
