"""Measure what a second of speech costs Moonshine's decoder, by the segments that it has in flight.

    python -m lab.in_flight --manifest speech/manifest.tsv --split dev --limit 40

Groups of each size are decoded by turns in this process, without a server. Each text is compared
with that of the segment alone.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from conch.cli.arguments import positive
from conch.cli.bench import counts
from conch.component import SAMPLE_RATE, Outputs, Row
from conch.families.moonshine.decoder import DecoderComponent, MoonshineDecoderConfig
from conch.families.moonshine.network import MAX_S, EncoderComponent, MoonshineConfig
from conch.scoring.error_rates import table
from conch.scoring.manifest import read_manifest, select
from conch.wire.errors import ConchError
from lab.arguments import script_parser
from lab.waveforms import waveform_of

FLAGS = """
--manifest FILE!   utterances with their texts
--split NAME       one part of the manifest (default: all)
--limit N=40       utterances
--beam-size N=1    hypotheses
--sizes N[,N…]     of the groups (default: 1,2,4,8)
--runs N=3         of each; medians
"""
SIZES = (1, 2, 4, 8)


def decoded(
    decoder: DecoderComponent, states: Sequence[Outputs], beam_size: int, size: int
) -> tuple[list[str], float]:
    """Return the texts of segments in groups of a size, and the CPU seconds that they took."""
    texts, began = [], time.process_time()
    for at in range(0, len(states), size):
        rows = [Row(item, {"beam_size": beam_size}) for item in states[at : at + size]]
        texts += [answer["hypotheses"][0].decode() for answer in decoder(rows)]
    return texts, time.process_time() - began


def main(argv: Sequence[str] | None = None) -> int:
    whole = dict.fromkeys(("limit", "beam_size", "runs"), positive)
    args = script_parser(__doc__, FLAGS, manifest=Path, sizes=counts, **whole).parse_args(argv)
    try:
        chosen = select(read_manifest(args.manifest), split=args.split, limit=args.limit)
        waveforms = [waveform_of(item.path)[: int(MAX_S * SAMPLE_RATE)] for item in chosen]
        encoder = EncoderComponent(MoonshineConfig(nice=0))
        states = [encoder([Row({"waveform": waveform})])[0] for waveform in waveforms]
        decoder = DecoderComponent(MoonshineDecoderConfig(nice=0))
        alone, _ = decoded(decoder, states, args.beam_size, 1)
    except ConchError as error:
        print(f"in_flight: {error}", file=sys.stderr)
        return 1
    audio_s = sum(map(len, waveforms)) / SAMPLE_RATE
    sizes = args.sizes or SIZES
    taken: dict[int, list[float]] = {size: [] for size in sizes}
    differ = dict.fromkeys(sizes, 0)
    for _ in range(args.runs):
        for size in sizes:
            texts, cpu_s = decoded(decoder, states, args.beam_size, size)
            taken[size].append(cpu_s / audio_s)
            differ[size] += sum(one != other for one, other in zip(texts, alone, strict=True))
    rows = [[str(size), f"{median(taken[size]):.4f}", str(differ[size])] for size in sizes]
    print(table(["in flight", "CPU s / audio s", "texts that differ"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
