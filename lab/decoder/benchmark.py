"""`python -m lab decoder`: how fast each search decodes log probabilities of real speech.

There is no server: Conch's CTC model encodes the recordings before the measurement.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from conch.bench import COMPARING, require
from conch.bench.header import Header
from conch.bench.manifest import Utterance, chosen
from conch.bench.measures import word_error_rate
from conch.bench.records import Flat
from conch.bench.tables import number, percent, table
from conch.component.arrays import FloatArray
from conch.decoding.beam.language import load_ctc_language_model
from conch.decoding.decoder import CtcDecoderConfig
from conch.decoding.graph.shipped import unpacked_graph
from conch.decoding.options import CtcSearchOptions
from conch.decoding.vocab import CtcVocab
from conch.families.ctc.encoder import CtcEncoder, CtcEncoderConfig
from conch.families.ctc.vocabulary import Vocabulary
from conch.families.ngram.arpa import read_ngrams
from conch.families.ngram.model import LanguageModelConfig, model_path
from lab.decoder.timing import DecoderTime, graph_time, pyctcdecode_times, searches, write_arpa
from lab.header import lab_header
from lab.waveforms import waveform_of

_COUNTERPARTS = {"beam": "pyctcdecode beam", "beam + n-gram": "pyctcdecode beam + n-gram"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderBenchmark:
    """Settings of the benchmark."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class WayFigures:
    """Speed and accuracy of one way of decoding."""

    name: str
    ms_per_utterance: float
    rtfx: float
    wer: float | None
    speedup: float | None
    """Speed relative to pyctcdecode's counterpart; None if it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderReport:
    """The report of the benchmark."""

    header: Flat[Header]
    ways: Sequence[WayFigures]


def run(benchmark: DecoderBenchmark) -> DecoderReport:
    """Measure and return the report.

    Raises:
        BenchError: the manifest, an audio file or a package is missing.
    """
    require(*COMPARING)
    require("pyctcdecode", "kenlm", extra="train,kenlm")
    begun = lab_header("decoder", benchmark)
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
        batch_size=benchmark.batch_size,
        runs=benchmark.runs,
        device=device,
    )
    ways.append(graph_time(log_probs, vocab, unpacked_graph(), benchmark.runs))
    with tempfile.TemporaryDirectory() as folder:
        arpa = Path(folder, "en-us.arpa")
        write_arpa(read_ngrams(model_path("")), arpa)
        ways += pyctcdecode_times(log_probs, vocab, arpa, options=options, runs=benchmark.runs)
    found = figures(ways, utterances, log_probs, vocabulary.frame_s)
    return DecoderReport(header=begun, ways=found)


def encoded(utterances: Sequence[Utterance]) -> tuple[list[FloatArray], Vocabulary]:
    """Return the CTC model's log probabilities of recordings, and its vocabulary."""
    encoder = CtcEncoder(CtcEncoderConfig())
    log_probs = []
    for utterance in tqdm(utterances, desc="encoding", disable=None):
        log_probs += encoder.encode([waveform_of(utterance.path)])
    return log_probs, encoder.vocabulary


def figures(
    ways: Sequence[DecoderTime],
    utterances: Sequence[Utterance],
    log_probs: Sequence[FloatArray],
    frame_s: float,
) -> list[WayFigures]:
    """Return the figures of each way."""
    audio_ms = 1000 * frame_s * sum(map(len, log_probs)) / len(log_probs)
    times = {way.name: way.ms_per_utterance for way in ways}
    references = [item.text for item in utterances]
    found = []
    for way in ways:
        counterpart = times.get(_COUNTERPARTS.get(way.name, ""))
        speedup = None if counterpart is None else round(counterpart / way.ms_per_utterance, 2)
        found.append(
            WayFigures(
                name=way.name,
                ms_per_utterance=way.ms_per_utterance,
                rtfx=round(audio_ms / way.ms_per_utterance, 1),
                wer=word_error_rate(references, way.texts),
                speedup=speedup,
            )
        )
    return found


def markdown(report: DecoderReport) -> str:
    """Return the table of a report and a line on its origin."""
    rows = [
        [
            way.name,
            number(way.ms_per_utterance, 2),
            number(way.rtfx, 0),
            number(way.speedup, 1),
            percent(way.wer),
        ]
        for way in report.ways
    ]
    columns = ["decoding", "ms per utterance", "RTFx", "times pyctcdecode", "WER %"]
    settings, machine = report.header.settings, report.header.machine
    where = (
        f"batch {settings['batch_size']}, beam {settings['beam_size']}, lm_weight "
        f"{settings['lm_weight']}, word_bonus {settings['word_bonus']}; one thread; "
        f"median of {settings['runs']} runs; "
        f"{machine.cpu}, {machine.cores} cores; {report.header.started_at}"
    )
    return "\n\n".join([f"`{report.header.command}`", table(columns, rows), where]) + "\n"
