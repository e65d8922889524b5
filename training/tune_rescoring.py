"""Choose lm_weight and word_bonus: decode a manifest once, then try many weights on the n-best.

    python training/tune_rescoring.py path/to/manifest.tsv --split dev --beam-size 5

The manifest has a header line and the columns path (relative to it), split, source and text.
Prints the word error rate without and with rescoring, for each source, the oracle's (the best text
of each n-best list), and what weights chosen on one half of the utterances give on the other.
"""

import argparse
import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import soundfile
from numpy.typing import NDArray
from whisper_normalizer.english import EnglishTextNormalizer

from conch.acoustic.features import SAMPLE_RATE
from conch.acoustic.whisper_decoder import WhisperDecoder, WhisperDecoderConfig
from conch.acoustic.whisper_encoder import WhisperEncoder, WhisperEncoderConfig
from conch.component import Row, bytes_array
from conch.language.rescorer import Rescorer, RescorerConfig

BATCH = 8


@dataclass(frozen=True)
class Utterance:
    """One n-best list, with what each of its texts costs."""

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
    parser.add_argument("--cache", type=Path, help="keep the n-best lists in this JSON file")
    parser.add_argument("--model", default="", help="Whisper folder; the default model if empty")
    parser.add_argument("--language-model", default="", help="ARPA or binary; en-us if empty")
    parser.add_argument("--oov-log-prob", type=float, default=RescorerConfig().oov_log_prob)
    args = parser.parse_args()

    if args.cache and args.cache.exists():
        lists = json.loads(args.cache.read_text())
    else:
        with args.manifest.open() as file:
            rows = [
                row for row in csv.DictReader(file, delimiter="\t") if row["split"] == args.split
            ]
        lists = decode(rows, args.manifest.parent, args.model, args.beam_size)
        if args.cache:
            args.cache.write_text(json.dumps(lists))
    config = RescorerConfig(model=args.language_model, oov_log_prob=args.oov_log_prob)
    report(scored(lists, Rescorer(config)))


def decode(
    rows: Sequence[dict[str, str]], folder: Path, model: str, beam_size: int
) -> list[dict[str, Any]]:
    """Return the n-best texts and scores of every utterance of at most 30 s."""
    encoder = WhisperEncoder(WhisperEncoderConfig(model=model))
    decoder = WhisperDecoder(WhisperDecoderConfig(model=model))
    waveforms = [soundfile.read(folder / row["path"], dtype="float32")[0] for row in rows]
    short = [index for index, item in enumerate(waveforms) if len(item) <= 30 * SAMPLE_RATE]
    print(f"{len(rows) - len(short)} utterances over 30 s left out")
    # Utterances of one length share a window, and hence a search.
    order = sorted(short, key=lambda index: len(waveforms[index]))
    lists = []
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        encoded = encoder([Row({"waveform": waveforms[index]}) for index in batch])
        parameters = {"beam_size": beam_size, "nbest": beam_size}
        found = decoder([Row(unwrap(item), parameters) for item in encoded])
        for index, item in zip(batch, found, strict=True):
            outputs = unwrap(item)
            lists.append(
                {
                    "path": rows[index]["path"],
                    "source": rows[index]["source"],
                    "text": rows[index]["text"],
                    "hypotheses": [text.decode() for text in outputs["hypotheses"]],
                    "scores": outputs["scores"].tolist(),
                }
            )
        print(f"\rdecoded {len(lists)} of {len(order)}", end="", flush=True)
    print()
    return sorted(lists, key=lambda item: str(item["path"]))


def unwrap(answer: Any) -> Any:
    """Return a component's outputs, or raise its error."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def scored(lists: Sequence[dict[str, Any]], rescorer: Rescorer) -> list[Utterance]:
    """Return the n-best lists with the word errors and the language scores of each text."""
    normalize = EnglishTextNormalizer()
    utterances = []
    for item in lists:
        reference = normalize(item["text"])
        if not reference:
            continue
        outputs = unwrap(rescorer([Row({"hypotheses": bytes_array(item["hypotheses"])})])[0])
        counts = [jiwer.process_words(reference, normalize(text)) for text in item["hypotheses"]]
        utterances.append(
            Utterance(
                source=item["source"],
                words=len(reference.split()),
                errors=np.array(
                    [count.substitutions + count.deletions + count.insertions for count in counts]
                ),
                am=np.array(item["scores"]),
                lm=outputs["lm_scores"].astype(np.float64),
                num_words=outputs["num_words"].astype(np.int64),
            )
        )
    return utterances


def wer(utterances: Sequence[Utterance], lm_weight: float, word_bonus: float) -> float:
    """Return the word error rate in per cent."""
    errors = sum(item.best(lm_weight, word_bonus) for item in utterances)
    return 100 * errors / sum(item.words for item in utterances)


def tuned(utterances: Sequence[Utterance]) -> tuple[float, float]:
    """Return the lm_weight and word_bonus of the lowest word error rate.

    Of weights that are equally good, those in the middle of their plateau: the median.
    """
    grid = [
        (float(weight), float(bonus))
        for weight in np.arange(0.0, 0.62, 0.02)
        for bonus in np.arange(-1.0, 3.01, 0.1)
    ]
    rates = np.array([wer(utterances, *point) for point in grid])
    best = np.array(grid)[rates <= rates.min() + 1e-9]
    middle = best[np.argmin(np.abs(best - np.median(best, axis=0)).sum(axis=1))]
    return float(middle[0]), float(middle[1])


def report(utterances: Sequence[Utterance]) -> None:
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
