"""Choose the weights of rescoring: decode a manifest once, then try many weights on the n-best.

    python -m lab.training.tune_rescoring --manifest path/to/manifest.tsv --split dev

The server's own path decodes, so that the weights are chosen for what requests meet: its segments,
its n-best lists, its models. Every hypothesis gets every opinion. Then each set of opinions is
tried with a grid of weights. The table has, for each set, the word error rate of the decoder alone,
with weights chosen on all utterances, and cross-validated: weights chosen on every second utterance
and applied to the others, both ways. The oracle takes the best text of each list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import jiwer
import numpy as np
from numpy.typing import NDArray

from conch.bench.samples import Choice, load_samples
from conch.cli.bench import settings_of
from conch.cli.server import server_url
from conch.families import decoders
from conch.scoring.error_rates import ENGLISH_WORDS
from conch.scoring.manifest import ManifestEntry
from conch.wire.nbest import Weights
from conch.wire.options import RecognitionOptions
from conch.wire.result import Transcript
from lab.arguments import script_parser
from lab.served import answers

FLAGS = """
--decoder {attention,moonshine,wfst}=attention  whose lists to rescore
--nbest N           length of the lists (default: the decoder's beam_size)
--url URL           of a running server; one is started without
"""
IN_FLIGHT = 4
EVERYTHING = {"rescore_margin": 1000.0, "coverage": False, "word_bonus": 0.0}
"""Options that score every hypothesis of a list."""
UNWEIGHTED = {"lm_weight": 0.0, "ctc_weight": 0.0, "attention_weight": 0.0}
NGRAM, NEURAL = (
    {"rescore": True, "rescorer": "ngram"},
    {"rescore": True, "rescorer": "neural"},
)
_ATTENTION = ({**NEURAL, "ctc_rescore": True}, NGRAM)
RUNS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "attention": _ATTENTION,
    "moonshine": _ATTENTION,
    "wfst": ({"attention_rescore": True}, NEURAL, NGRAM),
}
"""Options of the requests that together give every part of every hypothesis, by decoder."""
_ATTENTION_GRID = {
    "ngram": np.arange(0.0, 0.31, 0.02).tolist(),
    "neural": np.arange(0.0, 0.61, 0.05).tolist(),
    "ctc": np.arange(0.0, 0.41, 0.05).tolist(),
    "word_bonus": np.arange(-1.5, 2.1, 0.5).tolist(),
}
GRIDS: Mapping[str, Mapping[str, Sequence[float]]] = {
    "attention": _ATTENTION_GRID,
    "moonshine": _ATTENTION_GRID,
    "wfst": {
        "ngram": np.arange(0.0, 2.1, 0.2).tolist(),
        "neural": np.arange(0.0, 2.1, 0.2).tolist(),
        "attention": np.arange(0.0, 3.1, 0.25).tolist(),
        "word_bonus": np.arange(-1.5, 2.1, 0.5).tolist(),
    },
}
"""Weights to try, by decoder and part. Wider ones gain less than 0.1 points on dev."""


@dataclass
class Candidate:
    """A text of an n-best list, and what each opinion says of it."""

    text: str
    base: float
    """Score of the decoder, with its own language model."""
    am: float
    """Score of the decoder without a language model of its own."""
    num_words: int = 0
    opinions: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Listed:
    """The n-best lists of one utterance, one for each segment."""

    reference: str
    """Normalised."""
    segments: Sequence[Sequence[Candidate]]


def main() -> None:
    parser = script_parser(__doc__, FLAGS, takes_manifest=True)
    parser.set_defaults(split="dev")
    args = parser.parse_args()
    utterances = [item for item in settings_of(Choice, args).utterances() if item.text]
    report(args.decoder, decoded(utterances, args.decoder, args.nbest, args.url))


def decoded(
    utterances: Sequence[ManifestEntry], decoder: str, nbest: int | None, url: str | None
) -> list[Listed]:
    """Return the lists of the utterances with all opinions."""
    runs = [{"decoder": decoder, **EVERYTHING, **UNWEIGHTED, **run} for run in RUNS[decoder]]
    beam = nbest or RecognitionOptions.parse(runs[0]).beam_size
    sent = load_samples(utterances, "file")
    with server_url(url, runs) as server:
        by_run = [
            answers(server, sent, {**run, "beam_size": beam, "nbest": beam}, IN_FLIGHT)
            for run in runs
        ]
    lms = [str(run.get("rescorer", "")) for run in runs]
    return [
        Listed(ENGLISH_WORDS.normalized(item.text), _segments(lms, of_runs))
        for item, of_runs in zip(utterances, zip(*by_run, strict=True), strict=True)
    ]


def _segments(lms: Sequence[str], transcripts: Sequence[Transcript]) -> list[list[Candidate]]:
    """Return the list of each segment, from the answers to runs with these language models."""
    segments: dict[int, dict[str, Candidate]] = {}
    for lm, answer in zip(lms, transcripts, strict=True):
        for index, segment in enumerate(answer.segments):
            texts = segments.setdefault(index, {})
            for item in segment.nbest:
                # The first run has no language model of its own, or that of the decoder.
                new = Candidate(item.text, base=item.score, am=item.am_score)
                known = texts.setdefault(item.text, new)
                known.num_words = item.num_words or 0
                known.opinions |= {
                    name: score
                    for name, score in (
                        (lm, item.lm_score),
                        ("ctc", item.ctc_score),
                        ("attention", item.attention_score),
                    )
                    if name and score is not None
                }
    return [[*texts.values()] for texts in segments.values()]


class Choices:
    """Which texts weights choose, and how many word errors they have."""

    def __init__(self, decoder: str, names: Sequence[str], listed: Listed) -> None:
        """Prepare the parts of the scores: the base, each opinion, and the number of words."""
        self._listed = listed
        has_lm = bool({"neural", "ngram"} & {*names})
        self._parts = [
            np.array(
                [
                    [
                        item.am if has_lm and decoder == "wfst" else item.base,
                        # A list of one text is not sent.
                        *(max(item.opinions.get(name, 0.0), -1e6) for name in names),
                        item.num_words,
                    ]
                    for item in segment
                ]
            )
            for segment in listed.segments
        ]
        self._errors: dict[tuple[int, ...], int] = {}
        self.num_words = len(listed.reference.split())

    def errors(self, weights: NDArray[np.float64]) -> int:
        """Return the word errors of the texts that weights, float64 `[parts]`, choose."""
        chosen = tuple(int(np.argmax(parts @ weights)) for parts in self._parts)
        return self._errors_of(chosen)

    def fewest(self) -> int:
        """Return the word errors of the best texts, one segment after the other."""
        chosen = [0] * len(self._parts)
        for index, parts in enumerate(self._parts):
            tries = [(*chosen[:index], row, *chosen[index + 1 :]) for row in range(len(parts))]
            chosen = [*min(tries, key=lambda item: self._errors_of(tuple(item)))]
        return self._errors_of(tuple(chosen))

    def _errors_of(self, chosen: tuple[int, ...]) -> int:
        if chosen not in self._errors:
            pairs = zip(chosen, self._listed.segments, strict=True)
            text = ENGLISH_WORDS.normalized(
                " ".join(segment[index].text for index, segment in pairs)
            )
            alignment = jiwer.process_words(self._listed.reference, ENGLISH_WORDS.normalized(text))
            self._errors[chosen] = (
                alignment.substitutions + alignment.deletions + alignment.insertions
            )
        return self._errors[chosen]


def report(decoder: str, lists: Sequence[Listed]) -> None:
    print("WER %: of the decoder alone, weights chosen on all, cross-validated, the oracle's")
    print(f"{'opinions':20} {'alone':>6} {'all':>6} {'cross':>6} {'oracle':>6}  weights")
    for names in decoders()[decoder].weights:
        grid = GRIDS[decoder]
        points = np.array(
            [(1.0, *rest) for rest in product(*(grid[name] for name in [*names, "word_bonus"]))]
        )
        choices = [Choices(decoder, names, item) for item in lists]
        errors = np.array([[item.errors(point) for item in choices] for point in points])
        words = np.array([item.num_words for item in choices])
        first = np.arange(len(lists)) % 2 == 0
        crossed = np.where(
            first, errors[_best(points, errors[:, ~first])], errors[_best(points, errors[:, first])]
        )
        best = _best(points, errors)
        alone = np.array([item.errors(np.eye(len(names) + 2)[0]) for item in choices])
        fewest = np.array([item.fewest() for item in choices])
        rates = [100 * of.sum() / words.sum() for of in (alone, errors[best], crossed, fewest)]
        row = " ".join(f"{rate:6.2f}" for rate in rates)
        print(f"{'+'.join(names):20} {row}  {_weights(names, points[best])}")


def _best(points: NDArray[np.float64], errors: NDArray[np.int64]) -> int:
    """Return the index of the point with the fewest errors; of several, the most central one."""
    totals = errors.sum(axis=1)
    good = np.flatnonzero(totals == totals.min())
    spread = np.ptp(points, axis=0) + 1e-9
    away = np.abs(points[good] - np.median(points[good], axis=0)) / spread
    return int(good[np.argmin(away.sum(axis=1))])


def _weights(names: Sequence[str], point: NDArray[np.float64]) -> Weights:
    parts = {"ngram": "lm", "neural": "lm"}
    values = {
        parts.get(name, name): round(float(weight), 3)
        for name, weight in zip([*names, "word_bonus"], point[1:], strict=True)
    }
    return Weights(**values)


if __name__ == "__main__":
    main()
