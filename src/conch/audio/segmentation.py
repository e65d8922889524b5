"""Turn speech probabilities into segments for the encoder, incrementally."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from conch.component import SAMPLE_RATE, VAD_FRAME_SAMPLES, VAD_STATE_SIZE, Array, FloatArray
from conch.wire.errors import OptionError
from conch.wire.limits import clipped
from conch.wire.options import RecognitionOptions

HYSTERESIS = 0.15
"""A region closes this far below the threshold, as in Silero's own utilities."""
LEAST_CLOSE = 0.01
"""Smallest probability at which a region closes, as in Silero's own utilities."""
MIN_LEVEL = 0.3
"""Loudness of -70 dB full scale: the noise of a microphone."""
MERGE_GAP_S = 2.0
"""Regions closer than this share a segment if they fit, because context helps the decoder."""


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range `[start, end)`, in samples unless said otherwise."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRules:
    """Rules for the start and end of speech, and for the length of segments."""

    threshold: float
    min_speech_ms: float
    min_silence_ms: float
    pad_ms: float
    max_segment_s: float


def segment_rules(options: RecognitionOptions) -> SegmentRules:
    """Return the segment rules of a request's options; without VAD every frame is speech."""
    return SegmentRules(
        threshold=options.vad_threshold if options.vad else 0.0,
        min_speech_ms=options.vad_min_speech_ms if options.vad else 0,
        min_silence_ms=options.vad_min_silence_ms,
        pad_ms=options.vad_pad_ms if options.vad else 0,
        max_segment_s=options.max_segment_s,
    )


def text_of_state(state: FloatArray) -> str:
    """Return the VAD's memory, FP32 [VAD_STATE_SIZE], as the option `vad_state`."""
    return base64.b64encode(state.astype("<f4").tobytes()).decode()


def state_of(options: RecognitionOptions) -> FloatArray | None:
    """Return `vad_state` as FP32 [VAD_STATE_SIZE], None if empty, or raise an OptionError."""
    if not options.vad_state:
        return None
    try:
        state = np.frombuffer(base64.b64decode(options.vad_state, validate=True), "<f4")
    except ValueError:  # binascii.Error is one, too
        state = np.zeros(0, np.float32)
    if len(state) != VAD_STATE_SIZE or not np.isfinite(state).all():
        raise OptionError(
            f"option 'vad_state' takes base64 of {VAD_STATE_SIZE} finite FP32 numbers, as conch "
            f"bulk sends them; sent: {clipped(options.vad_state)}"
        )
    return state.astype(np.float32)


def closing_threshold(threshold: float) -> float:
    """Return the probability below which speech ends, for the threshold at which it begins."""
    # No probability is below 0; with a threshold of 0 every frame is speech.
    return max(threshold - HYSTERESIS, min(threshold, LEAST_CLOSE))


class Segmenter:
    """Turns a stream of speech probabilities into padded, merged and split segments.

    A region opens at a frame whose probability reaches the threshold. Silence begins at a frame
    below `threshold - HYSTERESIS` and lasts until a frame reaches the threshold again. After
    `min_silence_ms` of silence the region closes; it ends before the silence. Neighbouring regions
    merge into one segment of at most `max_segment_s`. A longer region is split at the least
    probable frame of its second half. Padding ends at the middle of a pause, so that segments do
    not overlap.
    """

    def __init__(self, rules: SegmentRules) -> None:
        self._open_at = rules.threshold
        self._close_at = closing_threshold(rules.threshold)
        self._min_speech = _frames(rules.min_speech_ms)
        self._min_silence = max(1, _frames(rules.min_silence_ms))
        self._pad = _frames(rules.pad_ms)
        longest = int(rules.max_segment_s * SAMPLE_RATE / VAD_FRAME_SAMPLES)
        self._longest = max(2, longest - 2 * self._pad)
        self._merge_gap = _frames(MERGE_GAP_S * 1000)
        self._now = 0
        self._probs: list[float] = []
        """Probabilities of the open region; empty while none is open."""
        self._quiet = 0
        """Frames of silence at the end of the open region."""
        self._pending: Span | None = None
        """The segment, in frames, that later regions may still extend."""
        self._emitted_until = 0
        self._split_at = -1
        """Start of the open region if it is the rest of a split one, else -1."""

    @property
    def needed_from(self) -> int:
        """First sample that a later segment may need."""
        first = self._now - len(self._probs)
        if self._pending is not None:
            first = self._pending.start
        return max(self._emitted_until, first - self._pad, 0) * VAD_FRAME_SAMPLES

    def push(self, speech_probs: Iterable[float]) -> list[Span]:
        """Add the probabilities of the next frames; return the segments that are complete."""
        done: list[Span] = []
        for prob in speech_probs:
            self._step(float(prob), done)
        return done

    def flush(self, num_samples: int) -> list[Span]:
        """Return the remaining segments at the end of the audio, which has `num_samples`."""
        done: list[Span] = []
        if self._probs:
            self._close(done)
        self._emit(done, until=self._now)
        return [Span(span.start, min(span.end, num_samples)) for span in done]

    def _step(self, prob: float, done: list[Span]) -> None:
        self._now += 1
        if not self._probs:
            if prob >= self._open_at:
                self._probs.append(prob)
            elif self._pending is not None and self._is_over(self._pending):
                self._emit(done, until=self._now)
            return
        self._probs.append(prob)
        if prob >= self._open_at:
            self._quiet = 0
        elif self._quiet or prob < self._close_at:
            self._quiet += 1
        if self._quiet >= self._min_silence:
            self._close(done)
        elif len(self._probs) >= self._longest:
            self._split(done)

    def _is_over(self, pending: Span) -> bool:
        return self._now - pending.end > max(self._merge_gap, 2 * self._pad)

    def _close(self, done: list[Span]) -> None:
        """End the open region before its trailing silence."""
        start = self._now - len(self._probs)
        end = self._now - self._quiet
        self._probs, self._quiet = [], 0
        if end - start >= self._min_speech or start == self._split_at:
            self._add(Span(start, end), done)

    def _split(self, done: list[Span]) -> None:
        """Split the open region where speech is least likely; the second part stays open."""
        half = len(self._probs) // 2
        cut = half + int(np.argmin(self._probs[half:]))
        start = self._now - len(self._probs)
        self._add(Span(start, start + cut), done)
        self._probs = self._probs[cut:]
        self._split_at = start + cut
        self._quiet = min(self._quiet, len(self._probs))

    def _add(self, region: Span, done: list[Span]) -> None:
        pending = self._pending
        if pending is not None:
            near = region.start - pending.end <= self._merge_gap
            if near and region.end - pending.start <= self._longest:
                self._pending = Span(pending.start, region.end)
                return
            self._emit(done, until=(pending.end + region.start) // 2)
        self._pending = region

    def _emit(self, done: list[Span], until: int) -> None:
        """Pad the pending segment, at its end up to frame `until`, and add it to `done`."""
        if self._pending is None:
            return
        start = max(self._pending.start - self._pad, self._emitted_until, 0)
        end = min(self._pending.end + self._pad, until)
        self._emitted_until = end
        self._pending = None
        done.append(Span(start * VAD_FRAME_SAMPLES, end * VAD_FRAME_SAMPLES))


def _frames(milliseconds: float) -> int:
    return round(milliseconds * SAMPLE_RATE / 1000 / VAD_FRAME_SAMPLES)


def frames_between(speech_probs: Array, start: int, end: int) -> Array:
    """Return the probabilities, FP32 [frames] from sample 0, of the samples `[start, end)`."""
    between: Array = speech_probs[start // VAD_FRAME_SAMPLES : -(-end // VAD_FRAME_SAMPLES)]
    return between


def speech_likeness(waveform: Array) -> Array:
    """Return an estimate of the speech probabilities of a waveform, FP32 [samples], without a VAD.

    A frame within 20 dB of the loudest frames is more likely speech than not, unless it is below
    MIN_LEVEL. The result is FP32 [ceil(samples / VAD_FRAME_SAMPLES)] in [0, 1].
    """
    level = loudness(waveform)
    if not len(level):
        return level
    likeness: Array = np.clip((level - np.percentile(level, 95) + 0.3) / 0.2, 0, 1)
    return np.where(level >= MIN_LEVEL, likeness, 0).astype(np.float32)


def loudness(waveform: Array) -> Array:
    """Return the loudness of each frame of a waveform, FP32 [samples] in [-1, 1].

    The result is FP32 [ceil(samples / VAD_FRAME_SAMPLES)] in [0, 1]; 0 is -100 dB or less.
    """
    missing = -len(waveform) % VAD_FRAME_SAMPLES
    frames = np.pad(waveform, (0, missing)).reshape(-1, VAD_FRAME_SAMPLES)
    power = np.mean(np.square(frames, dtype=np.float32), axis=1)
    level: Array = np.clip(1 + np.log10(np.maximum(power, 1e-10)) / 10, 0, 1)
    return level
