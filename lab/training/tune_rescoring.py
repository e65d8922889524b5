"""Choose lm_weight and word_bonus: decode a manifest once, then try many weights on the n-best.

    python -m lab.training.tune_rescoring path/to/manifest.tsv --split dev

The server's own path decodes, so that the weights are chosen for what requests meet: its segments,
its n-best and its language model. The manifest is one of `conch bench offline`.
Prints the word error rate without and with rescoring, for each source, the oracle's (the best text
of each n-best list), and what weights chosen on one half of the utterances give on the other.
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jiwer
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from conch.bench.manifest import Utterance, read_manifest, select
from conch.bench.measures import normalized
from conch.cli.own_server import server_url
from conch.client import AsyncClient
from conch.wire.needs import components_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Transcript

IN_FLIGHT = 8


@dataclass(frozen=True)
class NBest:
    """The n-best list of one utterance, with what each of its texts costs."""

    source: str
    words: int
    """In the reference."""
    errors: NDArray[np.int64]
    """Word errors of each text."""
    am: NDArray[np.float64]
    lm: NDArray[np.float64]
    num_words: NDArray[np.int64]

    def best(self, lm_weight: float, word_bonus: float) -> int:
        """Return the errors of the text that these weights put first."""
        total = self.am + lm_weight * self.lm + word_bonus * self.num_words
        return int(self.errors[int(np.argmax(total))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--url", help="of a running server; one is started without")
    parser.add_argument("--cache", type=Path, help="keep the transcripts in this JSON file")
    args = parser.parse_args()

    utterances = [
        item for item in select(read_manifest(args.manifest), split=args.split) if item.text
    ]
    if args.cache and args.cache.exists():
        transcripts = [Transcript.from_json(text) for text in json.loads(args.cache.read_text())]
    else:
        components = components_of(RecognitionOptions(rescore=True))
        with server_url(args.url, ["speech", *components]) as url:
            transcripts = asyncio.run(transcribe(url, utterances, args.beam_size))
        if args.cache:
            args.cache.write_text(json.dumps([item.to_json() for item in transcripts]))
    report([nbest_of(*pair) for pair in zip(utterances, transcripts, strict=True)])


async def transcribe(url: str, utterances: Sequence[Utterance], beam_size: int) -> list[Transcript]:
    """Return the transcripts with their whole n-best lists, scored but in the decoder's order."""
    slots = asyncio.Semaphore(IN_FLIGHT)
    progress = tqdm(total=len(utterances), unit="file", disable=None)

    async def one(client: AsyncClient, utterance: Utterance) -> Transcript:
        async with slots:
            transcript = await client.transcribe(
                utterance.path,
                beam_size=beam_size,
                nbest=beam_size,
                rescore=True,
                lm_weight=0.0,
                word_bonus=0.0,
            )
        progress.update()
        return transcript

    async with AsyncClient(url) as client:
        with progress:
            return await asyncio.gather(*(one(client, item) for item in utterances))


def nbest_of(utterance: Utterance, transcript: Transcript) -> NBest:
    """Return the n-best list with the word errors of each text."""
    reference = normalized(utterance.text)
    counts = [jiwer.process_words(reference, normalized(item.text)) for item in transcript.nbest]
    return NBest(
        source=utterance.source,
        words=len(reference.split()),
        errors=np.array(
            [count.substitutions + count.deletions + count.insertions for count in counts]
        ),
        am=np.array([item.am_score for item in transcript.nbest]),
        lm=np.array([item.lm_score or 0.0 for item in transcript.nbest]),
        num_words=np.array([item.num_words or 0 for item in transcript.nbest]),
    )


def wer(utterances: Sequence[NBest], lm_weight: float, word_bonus: float) -> float:
    """Return the word error rate in per cent."""
    errors = sum(item.best(lm_weight, word_bonus) for item in utterances)
    return 100 * errors / sum(item.words for item in utterances)


def tuned(utterances: Sequence[NBest]) -> tuple[float, float]:
    """Return the lm_weight and word_bonus of the lowest word error rate.

    Of weights that are equally good, those in the middle of their plateau: the median.
    """
    grid = [
        (float(weight), float(bonus))
        for weight in np.arange(0.0, 0.61, 0.01)
        for bonus in np.arange(-1.0, 3.01, 0.1)
    ]
    rates = np.array([wer(utterances, *point) for point in grid])
    best = np.array(grid)[rates <= rates.min() + 1e-9]
    middle = best[np.argmin(np.abs(best - np.median(best, axis=0)).sum(axis=1))]
    return float(middle[0]), float(middle[1])


def report(utterances: Sequence[NBest]) -> None:
    """Print the tables."""
    weight, bonus = tuned(utterances)
    print(f"chosen on all: lm_weight {weight:.2f} word_bonus {bonus:.2f}")
    print(f"{'source':28} {'off':>6} {'bonus':>6} {'on':>6} {'oracle':>6}  (WER %)")
    for source in ["all", *sorted({item.source for item in utterances})]:
        some = [item for item in utterances if source in ("all", item.source)]
        oracle = 100 * sum(int(item.errors.min()) for item in some) / sum(i.words for i in some)
        only_bonus = wer(some, 0.0, bonus)
        print(
            f"{source:28} {wer(some, 0, 0):6.2f} {only_bonus:6.2f} "
            f"{wer(some, weight, bonus):6.2f} {oracle:6.2f}"
        )
    change = [item.best(weight, bonus) - item.best(0, 0) for item in utterances]
    fewer, more = sum(value < 0 for value in change), sum(value > 0 for value in change)
    print(f"fewer errors in {fewer} of {len(utterances)} utterances, more in {more}")
    halves = (utterances[::2], utterances[1::2])
    for chosen_on, tested_on in (halves, halves[::-1]):
        weight, bonus = tuned(chosen_on)
        print(
            f"chosen on one half: lm_weight {weight:.2f} word_bonus {bonus:.2f}; the other half: "
            f"off {wer(tested_on, 0, 0):.2f} on {wer(tested_on, weight, bonus):.2f}"
        )


if __name__ == "__main__":
    main()
