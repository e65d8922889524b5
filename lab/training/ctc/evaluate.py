"""Print word error rates of a checkpoint or exported graph: by source and chunk.

    python -m lab.training.ctc.evaluate runs/first/final.pt --manifest speech/manifest.tsv

With --graph also by the decoding graph that comes with Conch, or one of `conch graph`; with
--rescore the n-best of that graph are rescored by an n-gram, as option rescore does it.
"""

from pathlib import Path

import torch

from conch.decoding.graph.search import DecodingGraph
from conch.decoding.ngram.model import LanguageModelConfig, load_language_model
from conch.families.ctc.decoder import unpacked_graph
from conch.scoring.error_rates import table
from lab.alignment import rates_by_source
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
    if args.graph is not None:
        path = Path(args.graph) if args.graph else unpacked_graph()
        graph = DecodingGraph(path, units.vocab)
    if args.rescore:
        language_model = load_language_model(LanguageModelConfig(model=args.language_model))
    rates: dict[str, dict[str, str]] = {}
    for chunk_ms in args.chunk_ms:
        log_probs = log_probs_of(
            model,
            waveforms,
            chunk_frames=chunk_ms // _FRAME_MS,
            left_frames=args.left_ms // _FRAME_MS,
        )
        context = f"{chunk_ms} ms" if chunk_ms else "full"
        rates[f"{context}, greedy"] = rates_by_source(utterances, greedy_texts(log_probs, units))
        if args.graph is not None:
            texts = graph_texts(graph, log_probs)
            rates[f"{context}, graph"] = rates_by_source(utterances, texts)
        if args.rescore:
            texts = best_texts(scored_lists(graph, language_model, log_probs))
            rates[f"{context}, graph, rescored"] = rates_by_source(utterances, texts)
    columns = next(iter(rates.values()), {})
    print(table(["WER %", *columns], [[name, *row.values()] for name, row in rates.items()]))


if __name__ == "__main__":
    main()
