"""Rules that end turns, replayed over the signals of their pauses.

The server decides when a step of its audio is complete, and on what it has asked for when the
client's next chunk comes. A rule is chosen on one half of the turns and judged on the other.
"""

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product

import numpy as np

from lab.endpoints.made_turns import LEAST_QUIET_S, STEP_S
from lab.endpoints.signals import ENDS, LATE_S, Signals

MODEL_S, PASS_S = 0.15, 0.4
"""From the end of a step to the chunk after the answer of smart-turn, and after a pass."""
CHUNK_S, SOON_S = 0.16, 0.06
"""A chunk of the gateway, and what smart-turn takes: with `turn_events` it is asked for each chunk,
and answers in that chunk."""
SHARES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
"""Shares of the ends of turns below which a threshold is tried."""
LONG_S = (0.8, 1.0, 1.2, 1.5, 2.0)
"""Silences that are tried for pauses in which a rule hears no end."""

End = Callable[[Signals], float]
"""Returns the silence after which a rule ends an utterance in a pause, in seconds."""
Turn = Sequence[Signals]


@dataclass(frozen=True, slots=True)
class Figures:
    cuts: float
    """Share of the turns that are cut in mid-sentence."""
    median_s: float
    """Delay from the last word to the end of the turn."""
    mean_s: float


@dataclass(frozen=True, slots=True)
class EagerFigures:
    threshold: float
    told: float
    """Share of the ends of turns that are told to be probable before they come."""
    cuts: float
    """Share of the turns in which such an end is told in mid-sentence."""
    taken_back: float
    """Share of the eager ends that are taken back."""
    median_s: float
    """Delay from the last word to the eager end, or else to the end of the turn."""
    mean_s: float


@dataclass(frozen=True, slots=True)
class Signs:
    """Signs besides silence, as one number."""

    score: Callable[[Signals], float]
    earliest_s: float
    """Silence from which on they are asked for."""
    late_s: float
    """What the answer takes."""


def log_odds(probability: float) -> float:
    """Return the log odds of a probability, within 7."""
    return max(-7.0, min(7.0, math.log(max(probability, 1e-9) / max(1 - probability, 1e-9))))


def is_sentence(text: str) -> bool:
    return text.rstrip("\"')]").endswith(ENDS) and not text.endswith("...")


def _stable(pause: Signals) -> float:
    return float(is_sentence(pause.late)) + float(pause.early == pause.late)


def _model_and_sign(pause: Signals) -> float:
    return log_odds(pause.smart) + log_odds(pause.end_prob) / 2


SIGNS: Mapping[str, Signs] = {
    "full stop": Signs(lambda pause: float(is_sentence(pause.late)), LATE_S, PASS_S),
    "full stop, stable text": Signs(_stable, LATE_S, PASS_S),
    "its probability": Signs(lambda pause: log_odds(pause.end_prob), LATE_S, PASS_S),
    "smart-turn": Signs(lambda pause: log_odds(pause.smart), LEAST_QUIET_S, MODEL_S),
    "smart-turn and its probability": Signs(_model_and_sign, LATE_S, PASS_S),
}


def silence(seconds: float) -> End:
    return lambda pause: _step_after(pause, seconds)


def signs(item: Signs, threshold: float, long_s: float) -> End:
    """Return a rule that ends an utterance soon at a score, and after `long_s` without it."""

    def end(pause: Signals) -> float:
        late = _step_after(pause, long_s)
        if item.score(pause) < threshold:
            return late
        return min(_step_after(pause, item.earliest_s) + item.late_s, late)

    return end


def figures(turns: Sequence[Turn], end: End) -> Figures:
    cuts, delays = 0, []
    for turn in turns:
        ended = {index: end(pause) for index, pause in enumerate(turn)}
        cuts += any(
            pause.position == "inside" and ended[index] <= pause.quiet_s
            for index, pause in enumerate(turn)
        )
        delays.append(ended[len(turn) - 1])
    return Figures(cuts / len(turns), float(np.median(delays)), float(np.mean(delays)))


def eager_figures(turns: Sequence[Turn], threshold: float, end: End) -> EagerFigures:
    told = taken_back = cuts = 0
    delays = []
    for turn in turns:
        *within, last = turn
        early = [
            pause
            for pause in within
            if pause.smart >= threshold and _soon(pause) <= min(pause.quiet_s, end(pause))
        ]
        taken_back += len(early)
        cuts += any(pause.position == "inside" for pause in early)
        is_told = last.smart >= threshold and _soon(last) <= end(last)
        told += is_told
        delays.append(_soon(last) if is_told else end(last))
    return EagerFigures(
        threshold,
        told / len(turns),
        cuts / len(turns),
        taken_back / max(1, taken_back + told),
        float(np.median(delays)),
        float(np.mean(delays)),
    )


def turns_of(pauses: Iterable[Signals]) -> tuple[list[Turn], list[Turn]]:
    """Return the turns to choose on, and those to judge on."""
    halves: tuple[list[Turn], list[Turn]] = ([], [])
    for (source, name), group in groupby(pauses, lambda pause: (pause.source, pause.turn)):
        halves[zlib.crc32(f"{source} {name}".encode()) % 2].append([*group])
    return halves


def chosen(turns: Sequence[Turn], item: Signs, most_s: float, delay: str) -> End | None:
    """Return the rule with the fewest cuts whose `delay`, a field, is at most `most_s`."""
    scores = [item.score(turn[-1]) for turn in turns]
    thresholds = sorted({float(np.quantile(scores, share)) for share in SHARES})
    rules = [signs(item, *setting) for setting in product(thresholds, LONG_S)]
    tried = [(figures(turns, rule), rule) for rule in rules]
    fitting = [(made.cuts, getattr(made, delay), index) for index, (made, _) in enumerate(tried)]
    fitting = [entry for entry in fitting if entry[1] <= most_s]
    return tried[min(fitting)[2]][1] if fitting else None


def cuts_of_silence(turns: Sequence[Turn], delay_s: float, delay: str) -> float:
    """Return the cuts of silence alone where its `delay`, a field, is so many seconds."""
    curve = [figures(turns, silence(ms / 1000)) for ms in range(100, 2501, 50)]
    points = sorted((getattr(item, delay), item.cuts) for item in curve)
    delays, cuts = np.array(points).T
    return float(np.interp(delay_s, delays, cuts))


def _soon(pause: Signals) -> float:
    """Return the silence after which smart-turn has answered, where it is asked for each chunk."""
    at = math.ceil((pause.start_s + LEAST_QUIET_S) / CHUNK_S - 1e-6) * CHUNK_S
    return at - pause.start_s + SOON_S


def _step_after(pause: Signals, seconds: float) -> float:
    """Return the silence at the end of the first step with at least so much of it."""
    at = math.ceil((pause.start_s + seconds) / STEP_S - 1e-6) * STEP_S
    return at - pause.start_s
