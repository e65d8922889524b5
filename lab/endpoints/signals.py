"""What tells in a pause of a turn whether the speaker has finished; each signal alone."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conch.component import SAMPLE_RATE, Row
from conch.families.moonshine.decoder import DecoderComponent, MoonshineDecoderConfig
from conch.families.moonshine.network import EncoderComponent, MoonshineConfig
from conch.families.turns import WINDOW_S
from conch.families.turns.model import EndOfTurnComponent, TurnsConfig
from lab.endpoints.made_turns import LEAST_QUIET_S, MadeTurn

EARLY_S, LATE_S = 0.1, 0.3
"""Silence that the two passes in a pause hear: a short one, and all of the padding of an utterance.
"""
ENDS = (".", "?", "!")


@dataclass(frozen=True, slots=True)
class Signals:
    turn: str
    source: str
    position: str
    start_s: float
    """Start of the pause in the turn's recording."""
    quiet_s: float
    """Its length."""
    early: str
    """Text of a pass that hears EARLY_S of it."""
    late: str
    """Text of one that hears LATE_S of it."""
    end_prob: float
    """Probability of a sign that ends a sentence behind the words of the late text."""
    smart: float
    """Probability of an end of the turn by smart-turn, as soon as it is asked."""


class Listener:
    def __init__(self, *, has_texts: bool) -> None:
        """Load the models; without texts, smart-turn alone is a signal."""
        self._has_texts = has_texts
        self._encode = EncoderComponent(MoonshineConfig(nice=0))
        self._decode = DecoderComponent(MoonshineDecoderConfig(nice=0))
        self._end_of_turn = EndOfTurnComponent(TurnsConfig(nice=0))

    def signals(self, turn: MadeTurn) -> list[Signals]:
        return [
            self._signals(turn, pause.start, pause.end, pause.position) for pause in turn.pauses
        ]

    def _signals(self, turn: MadeTurn, start: int, end: int, position: str) -> Signals:
        def until(quiet_s: float) -> NDArray[np.float32]:
            return turn.waveform[: start + round(quiet_s * SAMPLE_RATE)]

        quiet_s = (end - start) / SAMPLE_RATE
        early, _ = self._text(until(EARLY_S))
        late, end_prob = self._text(until(min(LATE_S, quiet_s)))
        smart = round(self._smart_turn(until(LEAST_QUIET_S)), 4)
        return Signals(
            turn.name,
            turn.source,
            position,
            round(start / SAMPLE_RATE, 3),
            round(quiet_s, 3),
            early,
            late,
            round(end_prob, 4),
            smart,
        )

    def _text(self, waveform: NDArray[np.float32]) -> tuple[str, float]:
        if not self._has_texts:
            return "", 0.0
        [states] = self._encode([Row({"waveform": waveform})])
        [decoded] = self._decode([Row(states, {"beam_size": 1})])
        text = decoded["hypotheses"].ravel()[0].decode()
        words = text.rstrip("".join(ENDS) + ",;:-… ")
        if not words:
            return text, 0.0
        texts = np.array([words, *(words + sign for sign in ENDS)], object)
        [scored] = self._decode([Row({**states, "texts": texts})])
        plain, *ended = scored["text_scores"].tolist()
        return text, min(1.0, float(np.exp(np.array(ended) - plain).sum()))

    def _smart_turn(self, waveform: NDArray[np.float32]) -> float:
        window = waveform[-round(WINDOW_S * SAMPLE_RATE) :]
        [answer] = self._end_of_turn([Row({"waveform": window})])
        return float(answer["probability"][0])
