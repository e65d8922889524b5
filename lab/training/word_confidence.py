"""Measure word confidences: do they separate right words from wrong ones, and are they calibrated?

    python -m lab.training.word_confidence --manifest speech/manifest.tsv --accuracy fast,best

For each preset: the share of right words, the area under the ROC curve (0.5 is guessing, 1 is
perfect), and the expected calibration error in 15 bins (Guo et al., 2017,
https://arxiv.org/abs/1706.04599). With --fit it also prints the coefficients of
`conch.families.attention.recogniser` that suit the words best, and cross-validated figures.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import mannwhitneyu

from conch.bench.samples import Choice, load_samples
from conch.cli.bench import settings_of
from conch.cli.server import server_url
from conch.families.attention.recogniser import AGREEMENT, BIAS, TOKENS, agreements, log_odds
from conch.scoring.error_rates import ENGLISH_WORDS
from conch.scoring.manifest import ManifestEntry
from conch.wire.result import Segment, Transcript
from lab.alignment import equal_words
from lab.arguments import script_parser
from lab.served import answers

FLAGS = """
--decoder NAME=attention   whose words to judge
--accuracy PRESET[,PRESET…]=fast,balanced,best  presets
--fit                      also fit the coefficients to each rescored preset
--url URL                  of a running server; one is started without
"""
IN_FLIGHT = 4
WHOLE_LIST = {"nbest": 10, "beam_size": 10}
BINS = 15


def main() -> None:
    parser = script_parser(__doc__, FLAGS, takes_manifest=True)
    parser.set_defaults(split="dev")
    args = parser.parse_args()
    utterances = [item for item in settings_of(Choice, args).utterances() if item.text]
    sent = load_samples(utterances, "file")
    with server_url(args.url, [{"decoder": args.decoder, "accuracy": "best"}]) as url:
        for preset in args.accuracy.split(","):
            # The whole list, because the confidences come from it.
            size = {"nbest": 1, "beam_size": 5} if preset == "fast" else WHOLE_LIST
            options = {"decoder": args.decoder, "accuracy": preset, "word_timestamps": True, **size}
            transcripts = answers(url, sent, options, IN_FLIGHT)
            report(preset, utterances, transcripts, fits=args.fit and preset != "fast")


def report(
    preset: str,
    utterances: Sequence[ManifestEntry],
    transcripts: Sequence[Transcript],
    *,
    fits: bool,
) -> None:
    rights, confidences, evidence, owners = [], [], [], []
    for index, (utterance, transcript) in enumerate(zip(utterances, transcripts, strict=True)):
        words = [word.text for word in transcript.words]
        shares = [share for segment in transcript.segments for share in _agreement(segment)]
        judged = right_words(words, utterance.text)
        for word, share, is_right in zip(transcript.words, shares, judged, strict=True):
            if is_right is not None:
                rights.append(is_right)
                confidences.append(word.confidence)
                agreed = log_odds(share)
                own = (log_odds(word.confidence) - AGREEMENT * agreed - BIAS) / TOKENS
                evidence.append((own, agreed, 1.0))
                owners.append(index)
    right, confidence = np.array(rights), np.array(confidences)
    print(
        f"{preset:10} {len(right)} words, {100 * right.mean():.2f} % right, "
        f"AUC {area(confidence, right):.4f}, ECE {calibration_error(confidence, right):.4f}"
    )
    if fits:
        features, halves = np.array(evidence), np.array(owners) % 2 == 0
        crossed = np.zeros(len(right))
        for half in (halves, ~halves):
            crossed[~half] = expit(features[~half] @ fitted(features[half], right[half]))
        print(
            f"{'':10} fitted: {np.round(fitted(features, right), 2)}, cross-validated "
            f"AUC {area(crossed, right):.4f}, ECE {calibration_error(crossed, right):.4f}"
        )


def _agreement(segment: Segment) -> list[float]:
    return agreements(segment.words, segment.nbest) if segment.words else []


def right_words(words: Sequence[str], reference: str) -> list[bool | None]:
    """Return whether each word is in the reference; None for one without letters or digits."""
    parts = [ENGLISH_WORDS.tokens(word) for word in words]
    hypothesis = [part for item in parts for part in item]
    equal = {own for _, own in equal_words(ENGLISH_WORDS.tokens(reference), hypothesis)}
    is_right = iter([index in equal for index in range(len(hypothesis))])
    return [all([next(is_right) for _ in item]) if item else None for item in parts]


def area(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve: how often a right word has more than a wrong one."""
    good, bad = confidence[right], confidence[~right]
    pairs = len(good) * len(bad)
    return float(mannwhitneyu(good, bad).statistic) / pairs if pairs else 1.0


def calibration_error(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [
        (bins == index).mean() * abs(confidence[bins == index].mean() - right[bins == index].mean())
        for index in np.unique(bins)
    ]
    return float(sum(gaps))


def fitted(features: NDArray[np.float64], right: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the coefficients of a logistic regression, by Newton's method."""
    weights = np.zeros(features.shape[1])
    for _ in range(50):
        rates = expit(features @ weights)
        slope = features.T @ (rates - right)
        curve = (features * (rates * (1 - rates))[:, None]).T @ features
        weights -= np.linalg.solve(curve + 1e-3 * np.eye(len(weights)), slope)
    return weights


if __name__ == "__main__":
    main()
