"""Measure what a second of speech costs Moonshine's decoder, by the segments that it has in flight.

    python -m lab.in_flight --manifest speech/manifest.tsv --split dev --limit 40

Groups of each size are decoded by turns in this process, without a server. Each text is compared
with that of the segment alone.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from conch.component import Outputs, Row
from conch.component.waveform import SAMPLE_RATE
from conch.families.moonshine.decoder import DecoderComponent, MoonshineDecoderConfig
from conch.families.moonshine.encoder import MAX_S, EncoderComponent, MoonshineConfig
from conch.scoring.manifest import read_manifest, select
from conch.wire.errors import ConchError
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


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lab.in_flight", description=str(__doc__).partition("\n")[0]
    )
    parser.add_argument("--manifest", type=Path, required=True, help="utterances with their texts")
    parser.add_argument("--split", help="one part of the manifest (default: all)")
    parser.add_argument("--limit", type=int, default=40, help="utterances (default: 40)")
    parser.add_argument("--beam-size", type=int, default=1, help="hypotheses (default: 1)")
    parser.add_argument("--sizes", default="1,2,4,8", help="of the groups (default: 1,2,4,8)")
    parser.add_argument("--runs", type=int, default=3, help="of each; medians (default: 3)")
    args = parser.parse_args(argv)
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
    sizes = [int(size) for size in args.sizes.split(",")]
    taken: dict[int, list[float]] = {size: [] for size in sizes}
    differ = dict.fromkeys(sizes, 0)
    for _ in range(args.runs):
        for size in sizes:
            texts, cpu_s = decoded(decoder, states, args.beam_size, size)
            taken[size].append(cpu_s / audio_s)
            differ[size] += sum(one != other for one, other in zip(texts, alone, strict=True))
    print("| in flight | CPU s / audio s | texts that differ |\n| ---: | ---: | ---: |")
    for size in sizes:
        print(f"| {size} | {median(taken[size]):.4f} | {differ[size]} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
