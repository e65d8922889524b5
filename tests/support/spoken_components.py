"""Plain components that hear each word of made speech, and a decoder that leaves some out."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from plain_components import ENCODER_SAMPLES, PlainComponents

from conch.component import bytes_array
from conch.wire.result import Word

RATE = 16_000
WORD_S = 0.4
"""Seconds of a made word, no more than `conch.recognition.offline.coverage` allows."""

Forgets = Callable[[Sequence[Word], float], Sequence[Word]]
"""From the words of some audio and its seconds to those that the decoder writes."""


def made(text: str) -> np.ndarray:
    """Return speech of 0.4 s for each letter, `-` a pause of 0.48 s, `.` one of 3.2 s."""
    pieces = [
        np.zeros(round(RATE * (0.48 if letter == "-" else 3.2)), np.float32)
        if letter in "-."
        else np.full(round(RATE * WORD_S), (ord(letter) - 96) / 100, np.float32)
        for letter in text
    ]
    waveform = np.concatenate(pieces)
    waveform[::2] *= -1
    return waveform


def heard(levels: np.ndarray) -> list[Word]:
    """Return the words in the levels of the encoder's frames, one for each run of a level."""
    found, at = [], 0
    for level, frames in groupby(levels.ravel().round(2).tolist()):
        start, at = at, at + len(list(frames))
        if level:
            seconds = start * ENCODER_SAMPLES / RATE, at * ENCODER_SAMPLES / RATE
            found.append(Word(chr(96 + round(level * 100)), *seconds, 0.5))
    return found


def until_a_pause(words: Sequence[Word], seconds: float) -> Sequence[Word]:
    """Return a text that ends at the first pause."""
    pauses = [i for i in range(1, len(words)) if words[i].start - words[i - 1].end > 0.2]
    return words[: pauses[0]] if pauses else words


def from_a_pause_on(words: Sequence[Word], seconds: float) -> Sequence[Word]:
    """Return a text that begins after the last pause."""
    pauses = [i for i in range(1, len(words)) if words[i].start - words[i - 1].end > 0.2]
    return words[pauses[-1] :] if pauses else words


class SpokenComponents(PlainComponents):
    """Encoders pass on how loud each frame is; decoders write a letter for each word in it."""

    def __init__(self, forgets: Forgets = lambda words, seconds: words) -> None:
        super().__init__()
        self.forgets = forgets
        self.other_hears = True

    def attention_encoder(self, inputs: Any, parameters: Any) -> Any:
        waveform = np.abs(inputs["waveform"])
        frames = waveform[: len(waveform) // ENCODER_SAMPLES * ENCODER_SAMPLES]
        levels = np.median(frames.reshape(-1, ENCODER_SAMPLES), axis=1)
        return {
            "encoder_out": levels[:, None].astype(np.float32),
            "encoder_out_lens": np.array([len(levels)], np.int32),
        }

    def attention_decoder(self, inputs: Any, parameters: Any) -> Any:
        seconds = len(inputs["encoder_out"]) * ENCODER_SAMPLES / RATE
        said = heard(inputs["encoder_out"])
        if "text" in inputs:
            letters = inputs["text"][0].decode().split()
            return columns([word for word in said if word.text in letters])
        words = self.forgets(said, seconds)
        text = " ".join(word.text for word in words)
        nbest = range(parameters["nbest"])
        outputs = {
            "hypotheses": bytes_array([f"{text}{'?' * rank}" for rank in nbest]),
            "scores": np.array([-1.0 - rank for rank in nbest], np.float32),
            **self.language(parameters),
        }
        return outputs | (columns(words) if parameters["align"] else {})

    def ctc_decoder(self, inputs: Any, parameters: Any) -> Any:
        words = heard(inputs["log_probs"]) if self.other_hears else []
        return {
            "hypotheses": bytes_array([" ".join(word.text for word in words)]),
            "scores": np.array([-1], np.float32),
            "am_scores": np.array([-1], np.float32),
            "lm_scores": np.zeros(1, np.float32),
            "num_words": np.array([len(words)], np.int32),
            **columns(words),
        }


def columns(words: Sequence[Word]) -> dict[str, np.ndarray]:
    """Return words as a component answers them."""
    return {
        "words": bytes_array([word.text for word in words]),
        "word_starts": np.array([word.start for word in words], np.float32),
        "word_ends": np.array([word.end for word in words], np.float32),
        "word_confidences": np.array([word.confidence for word in words], np.float32),
    }
