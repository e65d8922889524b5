"""`conch bench decoder`: how fast log probabilities of real speech become text, way by way.

No server: the CTC model that comes with Conch encodes the recordings first, and no clock runs
meanwhile. The report is one JSON object: `ways`, a list with `name`, `ms_per_utterance`, `rtfx`,
`wer` and, for ours, `speedup` over pyctcdecode's counterpart; and the header of an offline report.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from conch.acoustic.ctc_encoder import CtcEncoder, CtcEncoderConfig
from conch.acoustic.ctc_graph import Vocabulary
from conch.bench import require
from conch.bench.decoder import (
    DecoderTime,
    FloatArray,
    graph_time,
    pyctcdecode_times,
    searches,
    write_arpa,
)
from conch.bench.manifest import Utterance, chosen
from conch.bench.measures import word_error_rate
from conch.bench.offline import header
from conch.bench.recordings import decode
from conch.bench.report import number, percent, table
from conch.decoding.ctc_decoder import CtcDecoderConfig
from conch.decoding.ctc_language import load_ctc_language_model
from conch.decoding.ctc_options import CtcSearchOptions
from conch.decoding.ctc_vocab import CtcVocab
from conch.decoding.shipped_graph import unpacked_graph
from conch.language.arpa import read_ngrams
from conch.language.ngram import LanguageModelConfig, model_path
from conch.segmentation import SAMPLE_RATE

_COUNTERPARTS = {"beam": "pyctcdecode beam", "beam + n-gram": "pyctcdecode beam + n-gram"}
_HOTWORDS = ("conch", "triton inference server", "new york", "zebra crossing")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderBenchmark:
    """What is measured, and how."""

    manifest: Path
    split: str | None = None
    source: str | None = None
    limit: int | None = None
    batch_size: int = 32
    beam_size: int = 10
    lm_weight: float = 0.5
    word_bonus: float = 1.0
    runs: int = 5
    device: str = "cpu"
    """Of the beam: cpu, or a CUDA device of torch."""


def run(benchmark: DecoderBenchmark) -> dict[str, Any]:
    """Measure and return the report.

    Raises:
        BenchError: the manifest, an audio file or a package is missing.
    """
    require("jiwer", "whisper_normalizer", "pyctcdecode", "kenlm")
    utterances = chosen(benchmark)
    log_probs, vocabulary = encoded(utterances)
    vocab = CtcVocab(vocabulary.texts)
    options = CtcSearchOptions(
        beam_size=benchmark.beam_size,
        lm_weight=benchmark.lm_weight,
        word_bonus=benchmark.word_bonus,
    )
    device = None if benchmark.device == "cpu" else benchmark.device
    language_model = LanguageModelConfig(oov_log_prob=CtcDecoderConfig().oov_log_prob)
    model = load_ctc_language_model(language_model, vocab, device)
    ways = searches(
        log_probs,
        vocab,
        model,
        options=options,
        hotwords=_HOTWORDS,
        batch_size=benchmark.batch_size,
        runs=benchmark.runs,
        device=device,
    )
    ways.append(graph_time(log_probs, vocab, unpacked_graph(), benchmark.runs))
    with tempfile.TemporaryDirectory() as folder:
        arpa = Path(folder, "en-us.arpa")
        write_arpa(read_ngrams(model_path("")), arpa)
        ways += pyctcdecode_times(log_probs, vocab, arpa, options=options, runs=benchmark.runs)
    return {
        **header("decoder", benchmark),
        "ways": figures(ways, utterances, log_probs, vocabulary.frame_s),
    }


def encoded(utterances: Sequence[Utterance]) -> tuple[list[FloatArray], Vocabulary]:
    """Return what the CTC model makes of recordings, and what it writes."""
    encoder = CtcEncoder(CtcEncoderConfig())
    log_probs = []
    for utterance in tqdm(utterances, desc="encoding", disable=None):
        log_probs += encoder.encode([decode(utterance.path).resampled(SAMPLE_RATE)])
    return log_probs, encoder.vocabulary


def figures(
    ways: Sequence[DecoderTime],
    utterances: Sequence[Utterance],
    log_probs: Sequence[FloatArray],
    frame_s: float,
) -> list[dict[str, Any]]:
    """Return what the report says of each way."""
    audio_ms = 1000 * frame_s * sum(map(len, log_probs)) / len(log_probs)
    times = {way.name: way.ms_per_utterance for way in ways}
    found = []
    for way in ways:
        counterpart = times.get(_COUNTERPARTS.get(way.name, ""))
        figure = {key: value for key, value in asdict(way).items() if key != "texts"}
        figure["rtfx"] = round(audio_ms / way.ms_per_utterance, 1)
        figure["wer"] = word_error_rate([item.text for item in utterances], way.texts)
        figure["speedup"] = counterpart and round(counterpart / way.ms_per_utterance, 2)
        found.append(figure)
    return found


def markdown(report: Mapping[str, Any]) -> str:
    """Return the table of a report and a line on where it comes from."""
    rows = [
        [
            way["name"],
            number(way["ms_per_utterance"], 2),
            number(way["rtfx"], 0),
            number(way["speedup"], 1),
            percent(way["wer"]),
        ]
        for way in report["ways"]
    ]
    columns = ["decoding", "ms per utterance", "RTFx", "times pyctcdecode", "WER %"]
    machine = report["machine"]
    where = (
        f"batch {report['batch_size']}, beam {report['beam_size']}, lm_weight "
        f"{report['lm_weight']:g}, word_bonus {report['word_bonus']:g}; one thread; median of "
        f"{report['runs']} runs; {machine['cpu']}, {machine['cores']} cores; {report['started_at']}"
    )
    return "\n\n".join([f"`{report['command']}`", table(columns, rows), where]) + "\n"
