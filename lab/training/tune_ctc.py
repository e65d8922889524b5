"""Choose the weights of CTC decoding: n-gram fusion, the graph's scale and penalty, its rescoring.

    python -m lab.training.tune_ctc --manifest path/to/manifest.tsv --split dev

The CTC model that comes with Conch (or --model) encodes the recordings in full context once; then
every pair of lm_weight and word_bonus, and every pair of the graph's acoustic scale and blank
penalty, decodes them, and every pair of the former rescores the graph's n-best. Prints the word
error rate of each.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from conch.bench.samples import Choice
from conch.cli.bench import settings_of
from conch.component import FloatArray
from conch.decoding.beam import CtcSearchOptions
from conch.decoding.fusion import load_fused_language_model
from conch.decoding.graph.search import DecodingGraph, WfstConfig
from conch.decoding.ngram.model import LanguageModelConfig, load_language_model
from conch.decoding.vocab import CtcVocab
from conch.families.ctc.decoder import CtcDecoderConfig, unpacked_graph
from conch.families.ctc.encoder import CtcEncoder, CtcEncoderConfig
from conch.scoring.error_rates import percent, table, word_error_rate
from conch.wire.nbest import Weights
from lab.arguments import script_parser
from lab.training.ctc.texts import Scored, beam_texts, best_texts, graph_texts, scored_lists
from lab.waveforms import waveform_of

FLAGS = f"""
--model FILE        an exported .onnx (default: the one that comes with Conch)
--beam-size N=16    of the beam
--oov-log-prob X={CtcDecoderConfig().oov_log_prob}  of words that the n-gram lacks
"""


def main() -> None:
    parser = script_parser(__doc__, FLAGS, takes_manifest=True, model="")
    add = parser.add_argument
    add("--graph", type=Path, action="append", help="of `conch graph`; may be given again")
    add("--lm-weights", type=float, nargs="*", default=[0.3, 0.5, 0.8, 1.1, 1.5])
    add("--word-bonuses", type=float, nargs="*", default=[0.0, 1.5, 3.0, 4.5])
    add("--acoustic-scales", type=float, nargs="*", default=[0.8, 1.0, 1.2, 1.5])
    add("--blank-penalties", type=float, nargs="*", default=[0.0, 0.5, 1.0, 1.5])
    add("--rescoring-weights", type=float, nargs="*", default=[0.7, 0.85, 1.0, 1.2])
    args = parser.parse_args()
    utterances = settings_of(Choice, args).utterances()
    references = [item.text for item in utterances]
    encoder = CtcEncoder(CtcEncoderConfig(model=args.model))
    vocab = CtcVocab(encoder.vocabulary.texts)
    log_probs: list[FloatArray] = []
    for utterance in tqdm(utterances, desc="encoding", disable=None):
        log_probs += encoder.encode([waveform_of(utterance.path)])

    def wer(texts: Sequence[str]) -> str:
        return percent(word_error_rate(references, texts))

    def print_grid(
        title: str,
        rows: Sequence[float],
        columns: Sequence[float],
        decoded: Callable[[float, float], Sequence[str]],
    ) -> None:
        cells = [[f"{row:g}", *(wer(decoded(row, column)) for column in columns)] for row in rows]
        print(f"\n{table([title, *(f'{item:g}' for item in columns)], cells)}", flush=True)

    model = load_fused_language_model("", args.oov_log_prob, vocab.texts)
    plain = CtcSearchOptions(beam_size=args.beam_size)
    alone = wer(beam_texts(log_probs, vocab, plain))
    print(f"beam {args.beam_size} without the language model: {alone}")

    def fused(weight: float, bonus: float) -> Sequence[str]:
        options = replace(plain, language_model=True, lm_weight=weight, word_bonus=bonus)
        return beam_texts(log_probs, vocab, options, model)

    print_grid("lm_weight, word_bonus", args.lm_weights, args.word_bonuses, fused)
    rescorer = load_language_model(LanguageModelConfig())
    for path in args.graph or [unpacked_graph()]:
        graph = DecodingGraph(path, vocab.texts)

        def searched(scale: float, penalty: float, graph: DecodingGraph = graph) -> list[str]:
            config = WfstConfig(acoustic_scale=scale, blank_penalty=penalty)
            return graph_texts(graph, log_probs, config)

        title = f"acoustic scale, blank penalty, {path.name}"
        print_grid(title, args.acoustic_scales, args.blank_penalties, searched)
        lists = scored_lists(graph, rescorer, log_probs)

        def rescored(weight: float, bonus: float, lists: Sequence[Scored] = lists) -> list[str]:
            return best_texts(lists, Weights(lm=weight, word_bonus=bonus))

        title = "rescored, lm_weight, word_bonus"
        print_grid(title, args.rescoring_weights, args.word_bonuses, rescored)


if __name__ == "__main__":
    main()
