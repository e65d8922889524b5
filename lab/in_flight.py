"""`python -m lab in-flight`: what segments that are decoded together cost Moonshine."""

import argparse
import time
from collections.abc import Sequence
from statistics import median

from conch.bench.samples import Choice
from conch.cli.bench import settings_of
from conch.component import SAMPLE_RATE, Outputs, Row
from conch.families.moonshine.decoder import DecoderComponent, MoonshineDecoderConfig
from conch.families.moonshine.network import MAX_S, EncoderComponent, MoonshineConfig
from conch.scoring.error_rates import table
from lab.command import Command
from lab.waveforms import waveform_of


def decoded(
    decoder: DecoderComponent, states: Sequence[Outputs], beam_size: int, size: int
) -> tuple[list[str], float]:
    """Return the texts of segments in groups of a size, and the CPU seconds that they took."""
    texts, began = [], time.process_time()
    for at in range(0, len(states), size):
        rows = [Row(item, {"beam_size": beam_size}) for item in states[at : at + size]]
        texts += [answer["hypotheses"][0].decode() for answer in decoder(rows)]
    return texts, time.process_time() - began


def run_command(args: argparse.Namespace) -> int:
    chosen = settings_of(Choice, args).utterances()
    waveforms = [waveform_of(item.path)[: int(MAX_S * SAMPLE_RATE)] for item in chosen]
    encoder = EncoderComponent(MoonshineConfig(nice=0))
    states = [encoder([Row({"waveform": waveform})])[0] for waveform in waveforms]
    decoder = DecoderComponent(MoonshineDecoderConfig(nice=0))
    alone, _ = decoded(decoder, states, args.beam_size, 1)
    audio_s = sum(map(len, waveforms)) / SAMPLE_RATE
    taken: dict[int, list[float]] = {size: [] for size in args.sizes}
    differ = dict.fromkeys(args.sizes, 0)
    for _ in range(args.runs):
        for size in args.sizes:
            texts, cpu_s = decoded(decoder, states, args.beam_size, size)
            taken[size].append(cpu_s / audio_s)
            differ[size] += sum(one != other for one, other in zip(texts, alone, strict=True))
    rows = [[str(size), f"{median(taken[size]):.4f}", str(differ[size])] for size in args.sizes]
    print(table(["in flight", "CPU s / audio s", "texts that differ"], rows))
    return 0


COMMAND = Command(
    run=run_command,
    description="Measure what a second of speech costs Moonshine's decoder, by the segments that "
    "it has in flight. Groups of each size are decoded by turns in this process, without a server. "
    "Each text is compared with that of the segment alone.",
    epilog="""
examples:
  python -m lab in-flight --manifest speech/manifest.tsv --split dev --limit 40
""",
    flags="""
--limit N=40       utterances
--beam-size N=1    hypotheses
--sizes N[,N…]=1,2,4,8  of the groups
--runs N=3         of each; medians
""",
    takes_manifest=True,
    has_report=False,
)
