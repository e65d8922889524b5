"""Firm, tentative and newest words at every cut of real speech, by the real models."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from plain_components import HostTensor
from recordings import Recording, recordings_of

from conch.component import Row
from conch.decoding.streaming_decoder import StreamingDecoder
from conch.families.ctc.decoder import CtcDecoder, CtcStreamingDecoderConfig
from conch.families.ctc.encoder import CtcStreamingEncoder, CtcStreamingEncoderConfig
from conch.families.whisper.decoder import WhisperDecoder, WhisperDecoderConfig
from conch.families.whisper.encoder import WhisperEncoder, WhisperEncoderConfig
from conch.families.whisper.recogniser import OPEN_WINDOW
from conch.recognition.live.text import LiveText, whole_words
from conch.recognition.speech import words_of as words_in
from conch.recognition.word_alignment import letters
from conch.wire.errors import TranscriptionError
from conch.wire.result import Word

DATA = Path(__file__).parents[1] / "data"
WORSE = {"kokoro_0_00788.ogg": 0, "kokoro_0_02268.ogg": 1, "kokoro_1_00881.ogg": 0}
"""Words by which the joint may be worse than the best one. A word that comes thrice; a name that
Whisper writes as two words, at a cut followed by a wrong one; a text that begins wrong."""
STEP = 10_240
FIRST = 1
"""Number of the first step with a pass: of less than a second Whisper makes up the rest."""


def words_of(answer) -> tuple[Word, ...]:
    return words_in({name: HostTensor(np.asarray(item)) for name, item in answer.items()}, 0.0)


class Models:
    def __init__(self) -> None:
        self.encoder = WhisperEncoder(WhisperEncoderConfig(nice=0))
        self.decoder = WhisperDecoder(WhisperDecoderConfig(nice=0))
        self.ctc_encoder = CtcStreamingEncoder(CtcStreamingEncoderConfig())
        self.ctc_decoder = StreamingDecoder(CtcDecoder(CtcStreamingDecoderConfig()), 90.0)

    def rolling_pass(self, waveform) -> tuple[Word, ...]:
        (encoded,) = self.encoder([Row({"waveform": waveform}, OPEN_WINDOW)])
        assert not isinstance(encoded, TranscriptionError)
        greedy = {"beam_size": 1, "nbest": 1, "align": True, "language": "en"}
        (decoded,) = self.decoder([Row(encoded, greedy)])
        return words_of(decoded)

    def first_pass(self, waveform) -> list[tuple[Word, ...]]:
        found = []
        steps = [waveform[start : start + STEP] for start in range(0, len(waveform), STEP)]
        for index, step in enumerate(steps):
            place = ("stream", index == 0, index == len(steps) - 1)
            (encoded,) = self.ctc_encoder([Row({"waveform": step}, {}, *place)])
            log_probs = {name: encoded[name] for name in ("log_probs", "log_probs_lens")}
            (decoded,) = self.ctc_decoder([Row(log_probs, {"decoder": "wfst"}, *place)])
            best = decoded["hypotheses"][0].decode()
            found.append(words_of(decoded)[: len(best.split())])
        return found

    def close(self) -> None:
        self.ctc_encoder.close()
        self.ctc_decoder.close()


class Heard:
    """What both models hear of a recording, step by step."""

    def __init__(self, models: Models, recording: Recording) -> None:
        waveform = recording.waveform()
        self.reference = [letters(word) for word in recording.text.replace("-", " ").split()]
        self.ctc = models.first_pass(waveform)
        self.ends = [min(len(waveform), (n + 1) * STEP) / 16_000 for n in range(len(self.ctc))]
        self.passes = {
            step: models.rolling_pass(waveform[: (step + 1) * STEP])
            for step in range(FIRST, len(self.ctc))
        }


@pytest.fixture(scope="module")
def heard() -> dict[str, Heard]:
    models = Models()
    chosen = [item for item in recordings_of(DATA) if item.path.name in WORSE]
    found = {item.path.name: Heard(models, item) for item in chosen}
    models.close()
    return found


def edits(words: list[str], reference: list[str]) -> list[int]:
    """Return the edit distance of a text to each beginning of the reference."""
    row = list(range(len(reference) + 1))
    for number, word in enumerate(words, 1):
        below = [number]
        for column, other in enumerate(reference):
            paired = row[column] + (word != other)
            below.append(min(paired, row[column + 1] + 1, below[column] + 1))
        row = below
    return row


def spelled(words) -> list[str]:
    """Return the letters of each word, of one with a hyphen those of its parts."""
    return [letters(part) for word in words for part in word.text.split("-") if letters(part)]


def doubled(words: list[str]) -> int:
    return sum(word == other for word, other in pairwise(words))


@pytest.mark.parametrize("name", WORSE)
@pytest.mark.parametrize("every", [1, 2])
def test_at_every_cut_no_word_is_doubled_or_lost(heard, name, every):
    """Text after passes at every or every other step, with what CTC has heard later.

    It is as near to the reference as the best of all joints of the two texts, and covers all of the
    reference that CTC has heard.
    """
    this, text, count = heard[name], LiveText(), 0
    for step in range(FIRST, len(this.ctc), every):
        text = text.after_pass(this.passes[step], 0.0, this.ends[step], this.ctc[step])
        known = spelled((*text.firm, *text.tentative))
        for later in range(step, len(this.ctc)):
            until = this.ends[later]
            tentative, newest = text.shown(this.ctc[later], until, in_speech=True)
            shown = spelled((*text.firm, *tentative, *newest))
            ctc = spelled(whole_words(this.ctc[later], until))
            ctc_edits = edits(ctc, this.reference)
            covered = max(n for n, found in enumerate(ctc_edits) if found == min(ctc_edits))

            def errors(words, covered=covered):
                return min(edits(words, this.reference)[covered:])

            best = min(errors([*known, *ctc[cut:]]) for cut in range(len(ctc) + 1))
            assert errors(shown) <= best + WORSE[name], (step, later, " ".join(shown))
            assert doubled(shown) <= doubled(this.reference), (step, later, " ".join(shown))
            count += 1
    assert count >= 9
