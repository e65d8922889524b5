"""Measure hotwords: how many rare words are found with and without them, and what they cost.

    python -m lab.training.hotword_recall path/to/manifest.tsv --split dev

A rare word is one that the language model does not know, or ranks below --rank by frequency. Each
utterance that holds one is sent without hotwords and then, for every weight, with its own rare
words among --distractors of other utterances. Prints recall, how often a distractor was written
that nobody said, and the word error rate.
"""

import argparse
import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from conch.bench.manifest import Utterance, read_manifest, select
from conch.bench.measures import word_error_rate
from conch.cli.own_server import server_url
from conch.client import AsyncClient
from conch.language.arpa import read_ngrams
from conch.language.ngram import model_path
from conch.language.normalize import language_model_words
from conch.wire.needs import components_of
from conch.wire.options import RecognitionOptions

IN_FLIGHT = 4


@dataclass(frozen=True)
class Case:
    """An utterance and its hotwords."""

    utterance: Utterance
    said: tuple[str, ...]
    """Its rare words."""
    distractors: tuple[str, ...]


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("manifest", type=Path)
    add("--split")
    add("--limit", type=int, help="utterances, evenly taken, before the rare words are looked for")
    add("--url", help="of a running server; without it one is started")
    add("--rank", type=int, default=10_000, help="words of the model that are not rare")
    add("--distractors", type=int, default=50)
    add("--weights", type=float, nargs="*", default=[2, 5, 8, 12])
    add("--no-fusion", action="store_true", help="without the language model in the search")
    args = parser.parse_args()
    utterances = select(read_manifest(args.manifest), split=args.split, limit=args.limit)
    cases = cases_of(utterances, frequent_words(args.rank), args.distractors)
    words = sum(len(case.said) for case in cases)
    print(f"{len(cases)} utterances with {words} rare words, {args.distractors} distractors each\n")
    print("| hotwords | recall % | distractors written | WER % |")
    print("| --- | ---: | ---: | ---: |")
    base = {"decoder": "ctc", "lm_fusion": not args.no_fusion}
    components = components_of(RecognitionOptions.parse(base))
    with server_url(args.url, ["speech", *components]) as url:
        for weight in (None, *args.weights):
            texts = asyncio.run(transcribed(url, cases, base, weight))
            name = "none" if weight is None else f"weight {weight:g}"
            print(f"| {name} | {' | '.join(figures(cases, texts))} |", flush=True)


def frequent_words(count: int) -> frozenset[str]:
    """Return the language model's most frequent words."""
    table = read_ngrams(model_path(""))
    order = np.argsort(-table.orders[0].log_probs, kind="stable")
    return frozenset(table.words[index] for index in order[:count])


def cases_of(
    utterances: Sequence[Utterance], frequent: frozenset[str], distractors: int
) -> list[Case]:
    """Return the utterances with rare words, each with distractors that it does not hold."""
    spoken = [language_model_words(item.text) for item in utterances]
    rare = [
        tuple(dict.fromkeys(word for word in words if len(word) > 2 and word not in frequent))
        for words in spoken
    ]
    every = sorted({word for words in rare for word in words})
    rng = random.Random(0)
    return [
        Case(
            utterance,
            said,
            tuple(rng.sample([word for word in every if word not in words], distractors)),
        )
        for utterance, words, said in zip(utterances, spoken, rare, strict=True)
        if said
    ]


async def transcribed(
    url: str, cases: Sequence[Case], options: Mapping[str, Any], weight: float | None
) -> list[str]:
    """Return the text of each case; a weight of None is without hotwords."""
    slots = asyncio.Semaphore(IN_FLIGHT)
    with tqdm(total=len(cases), desc=f"weight {weight}", disable=None) as progress:
        async with AsyncClient(url) as client:

            async def one(case: Case) -> str:
                hot: dict[str, Any] = {}
                if weight is not None:
                    hotwords = ",".join((*case.said, *case.distractors))
                    hot = {"hotwords": hotwords, "hotword_weight": weight}
                async with slots:
                    answer = await client.transcribe(case.utterance.path, **options, **hot)
                progress.update()
                return answer.text

            return await asyncio.gather(*map(one, cases))


def figures(cases: Sequence[Case], texts: Sequence[str]) -> tuple[str, str, str]:
    """Return recall, distractors written and word error rate, as the table shows them."""
    found = written = total = 0
    for case, text in zip(cases, texts, strict=True):
        words = Counter(language_model_words(text))
        total += len(case.said)
        found += sum(1 for word in case.said if words[word])
        written += sum(words[word] for word in case.distractors)
    wer = word_error_rate([case.utterance.text for case in cases], texts)
    return f"{100 * found / total:.1f}", str(written), f"{100 * (wer or 0):.2f}"


if __name__ == "__main__":
    main()
