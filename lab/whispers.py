"""Compare Whisper models: errors, time and CPU of the same recordings, and memory.

    python -m lab.whispers --manifest speech/manifest.tsv --split dev --model tiny.en --model base
    python -m lab.whispers --manifest speech/manifest.tsv --split dev_zh --model base \\
        --language zh

Each model has a server of its own with the three components of `attention`. All run at once, and
each recording goes to one after the other, in turns of order: what else the machine does meets all
of them alike. So the ratios of times hold on a busy machine, and the times themselves do not.

Errors are counted as `conch bench offline` does it, by the language of each recording: that of the
manifest, else `--language`, else English. What a model takes the language for does not count, so
that all models are compared in the same way.
"""

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from conch.bench.memory import cpu_by_process, cpu_since, process_tree, tree_memory
from conch.bench.progress import progress
from conch.bench.samples import Sample, load_samples
from conch.cli.arguments import add_flags, output, positive
from conch.cli.bench_arguments import METRIC
from conch.client import Client
from conch.launcher import ServerConfig, TritonServer
from conch.scoring.error_rates import (
    Accuracy,
    Metric,
    Scoring,
    accuracy,
    language_of_texts,
    word_errors,
)
from conch.scoring.manifest import Utterance, read_manifest, select
from conch.scoring.tables import number, percent, table
from conch.wire.errors import ConchError

MODELS = ("speech", "vad", "attention_encoder", "attention_decoder")
WEIGHED = MODELS[2:]
"""The processes whose memory and CPU depend on the model."""


@dataclass(kw_only=True)
class Figures:
    """The figures of one model."""

    model: str
    wall_s: float = 0.0
    cpu_s: float = 0.0
    """Of encoder and decoder."""
    memory_mb: float = 0.0
    """PSS of encoder and decoder after all recordings, in MB of 10⁶ bytes."""
    texts: list[str] = field(default_factory=list)
    accuracy: Accuracy = field(default_factory=lambda: accuracy([]))


def measured(
    models: Sequence[str], samples: Sequence[Sample], metric: Metric, language: str
) -> list[Figures]:
    """Send every recording to a server of each model; return the figures in order.

    Raises:
        ConchError: a model is not here, or a request fails.
    """
    found = [Figures(model=model) for model in models]
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(TritonServer(ServerConfig(models=MODELS, whisper=model)))
            for model in models
        ]
        clients = [
            stack.enter_context(Client(f"grpc://{server.grpc_url}", timeout_s=600))
            for server in servers
        ]
        options: dict[str, Any] = {"language": language} if language else {}
        for client in clients:
            for sample in samples[:2]:
                client.transcribe(sample.audio, sample_rate=sample.sample_rate, **options)
        before = [cpu_by_process(server.pid) for server in servers]
        with progress("recordings", len(samples)) as bar:
            for turn, sample in enumerate(samples):
                for place in _in_turns(len(models), turn):
                    begun = time.perf_counter()
                    answer = clients[place].transcribe(
                        sample.audio, sample_rate=sample.sample_rate, **options
                    )
                    found[place].wall_s += time.perf_counter() - begun
                    found[place].texts.append(answer.text)
                bar.update()
        for server, figures, cpu in zip(servers, found, before, strict=True):
            used = cpu_since(server.pid, cpu)
            memory = tree_memory(process_tree(server.pid)).by_process_mb
            figures.cpu_s = sum(used.get(name, 0.0) for name in WEIGHED)
            figures.memory_mb = sum(memory.get(name, 0.0) for name in WEIGHED)
    utterances = [sample.utterance for sample in samples]
    for figures in found:
        figures.accuracy = accuracy_of(utterances, figures.texts, metric, options)
    return found


def accuracy_of(
    utterances: Sequence[Utterance],
    texts: Sequence[str],
    metric: Metric,
    options: Mapping[str, Any],
) -> Accuracy:
    """Return the accuracy of texts, each compared in the language of its own utterance.

    Args:
        utterances: what was sent.
        texts: the recognised texts, in the same order.
        metric: what errors are counted in.
        options: options of the requests.
    """
    return accuracy(
        [
            (said.source, word_errors(said.text, text, Scoring.of(metric, language)))
            for said, text in zip(utterances, texts, strict=True)
            for language in [language_of_texts(options, said.language)]
        ]
    )


def _in_turns(models: int, turn: int) -> Iterator[int]:
    """Yield the places of the models: another one is the first at each turn."""
    yield from ((turn + place) % models for place in range(models))


def markdown(found: Sequence[Figures], audio_s: float) -> str:
    """Return the table; times stand next to those of the first model."""
    first = found[0]
    # The references of all models are the same, so the measures are too.
    has_words, has_characters = first.accuracy.reference_words, first.accuracy.character_errors
    rates = {
        "WER %": [item.accuracy.wer for item in found] if has_words else [],
        "CER %": [item.accuracy.cer for item in found] if has_characters else [],
    }
    rates = {name: column for name, column in rates.items() if column}
    header = ("model", *rates, "time", "CPU", "CPU s per s of audio", "memory MB")
    rows = [
        [
            item.model,
            *(percent(column[place]) for column in rates.values()),
            number(item.wall_s / first.wall_s, 2),
            number(item.cpu_s / first.cpu_s, 2),
            number(item.cpu_s / audio_s, 4),
            number(item.memory_mb, 0),
        ]
        for place, item in enumerate(found)
    ]
    sent = f"{len(first.texts)} recordings, {audio_s:.0f} s of audio"
    return f"{table(header, rows)}\n\n{'; '.join([sent, *first.accuracy.scoring])}\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the table; return 0 for success, 1 for failure."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.whispers", description=str(__doc__).partition("\n")[0]
    )
    parser.add_argument("--manifest", type=Path, required=True, metavar="FILE.tsv")
    parser.add_argument("--split", help="only recordings of this split")
    parser.add_argument("--limit", type=positive, metavar="N", help="at most N, spread evenly")
    parser.add_argument("--model", action="append", required=True, help="as conch models lists it")
    parser.add_argument("--language", default="", help="of the requests (default: theirs)")
    add_flags(parser.add_argument_group("how errors are counted"), METRIC)
    parser.add_argument("--json", type=output, metavar="FILE", help="every figure and text")
    args = parser.parse_args(argv)
    try:
        utterances = select(
            read_manifest(args.manifest), split=args.split, source=None, limit=args.limit
        )
        samples = load_samples(utterances, "waveform")
        found = measured(args.model, samples, args.metric, args.language)
    except ConchError as error:
        print(f"whispers: {error}", file=sys.stderr)
        return 1
    print(markdown(found, sum(sample.duration_s for sample in samples)), end="")
    if args.json:
        text = json.dumps([asdict(item) for item in found], indent=1, ensure_ascii=False)
        args.json.write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
