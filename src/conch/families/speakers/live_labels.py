"""Label a live stream: ask the networks beside its first pass, and tell who speaks so far."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from conch.bls.calls import Calls, together
from conch.component import SAMPLE_RATE, Array, FloatArray
from conch.families.speakers import FRAME_FIELD, FRAME_SAMPLES
from conch.families.speakers.assignment import LEAST_S
from conch.families.speakers.labels import KNOWN, LINE_KNOWN, SpeakerLabels, active_in, embedded
from conch.families.speakers.live import (
    REGROUP_S,
    SETTLE_S,
    LiveVoices,
    Run,
    Solo,
    relabelled,
    solos,
    turn_of,
)
from conch.families.speakers.pieces import (
    LINE,
    WIDE_BAND,
    WINDOW_S,
    frame_at,
    is_of_line,
    num_frames,
    spoken,
)
from conch.recognition.hooks import StreamTurns
from conch.wire.known_speakers import known_speakers_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Turn
from conch.wire.turns import joined_turns

logger = logging.getLogger(__name__)

KEPT_S = 12.0
"""Audio that is kept."""
LATE_S = 2.0
"""Audio that waits: of more, all but the latest window is left out."""


class _AudioStep(NamedTuple):
    start: int
    waveform: Array
    speech_probs: Array

    @property
    def end(self) -> int:
        return self.start + len(self.waveform)


class LiveLabels:
    """The labels of one live stream; its networks are asked in a task, only while somebody speaks.

    A step that comes while they are asked waits. If more than LATE_S wait, some are left out: text
    and labels never wait for each other.
    """

    def __init__(self, options: RecognitionOptions, calls: Calls) -> None:
        number = options.speakers if isinstance(options.speakers, int) else None
        self._fewest, self._most = number or options.min_speakers, number or options.max_speakers
        self._calls, self._waits = calls, not options.adaptive
        self._voices = LiveVoices(self._most)
        self._steps: deque[_AudioStep] = deque()
        self._end = self._analysed = 0
        """Samples so far, and those that the networks have heard, or that nobody has spoken in."""
        self._windows = self._line_windows = 0
        self._labels = SpeakerLabels(known_speakers_of(options.known_speakers))
        self._sent_labels: list[str] = []
        """Labels of the settled runs, as they were sent."""
        self._task: asyncio.Task[None] | None = None
        self._final: list[Turn] | None = None
        self._has_failed = False

    @property
    def settled_s(self) -> float:
        """Seconds of audio whose turns no longer change before the end."""
        return self._voices.settled * FRAME_SAMPLES / SAMPLE_RATE

    def hear(self, waveform: Array, speech_probs: Array) -> None:
        # A copy: a view would keep the whole chunk.
        self._steps.append(_AudioStep(self._end, waveform.copy(), speech_probs))
        self._end += len(waveform)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._catch_up())

    async def settled(self) -> None:
        """Wait until the networks have heard all audio."""
        if self._task:
            await asyncio.wait((self._task,))

    def turns(self, start: float) -> list[Turn]:
        """Return the turns so far that end after a time in seconds."""
        if self._final is not None:
            return [turn for turn in self._final if turn.end > start]
        return self._turns(self._voices.since(max(0, frame_at(start * SAMPLE_RATE))))

    def take_turns(self) -> list[Turn]:
        """Return the turns that are settled since the last call."""
        new = self._turns(self._voices.runs[len(self._sent_labels) :])
        self._sent_labels += [turn.speaker for turn in new]
        return new

    async def finish(self) -> StreamTurns:
        await self.settled()
        self._voices.settle(frame_at(self._end + KEPT_S * SAMPLE_RATE))
        parts, sounds = await asyncio.to_thread(
            relabelled,
            self._voices.runs,
            self._voices.pieces,
            is_line=self._is_line,
            fewest=self._fewest,
            most=self._most,
        )
        self.take_turns()
        if len(sounds):
            self._know(sounds, anew=True)
        parts.sort(key=lambda part: part[1].first)
        turns = self._turns(run for _, run in parts)
        sent = (self._sent_labels[index] for index, _ in parts)
        changed = [turn for turn, before in zip(turns, sent, strict=True) if turn.speaker != before]
        self._final = joined_turns(turns, LEAST_S)
        return StreamTurns(self._final, joined_turns(changed, LEAST_S))

    def cancel(self) -> None:
        if self._task:
            self._task.cancel()

    @property
    def _is_line(self) -> bool:
        return 2 * self._line_windows > self._windows

    async def _catch_up(self) -> None:
        while self._analysed < self._end:
            until = next(step.end for step in self._steps if step.end > self._analysed)
            if not self._waits and self._end - until > LATE_S * SAMPLE_RATE:
                until = self._end
            try:
                await self._window(until)
            except Exception as failure:  # the text goes on without labels
                if not self._has_failed:
                    self._has_failed = True
                    logger.warning("the speakers of a stream are not labelled: %s", failure)
            self._analysed = until
            self._voices.settle(frame_at(until - SETTLE_S * SAMPLE_RATE))
            while self._steps[0].end < until - KEPT_S * SAMPLE_RATE:
                self._steps.popleft()

    async def _window(self, until: int) -> None:
        """Have the networks hear the latest audio up to a sample, if anybody speaks in it."""
        steps = [step for step in self._steps if step.start < until]
        begins = steps[0].start
        probs = np.concatenate([step.speech_probs for step in steps])
        # The start of a frame, so that the frames of all windows are the same.
        first = max(-(-begins // FRAME_SAMPLES), frame_at(until - WINDOW_S * SAMPLE_RATE), 0)
        speech = np.zeros(num_frames(until - first * FRAME_SAMPLES), bool)
        band = LINE if self._is_line else WIDE_BAND
        for span in spoken(probs, until - begins, band):
            edges = (max(0, frame_at(begins + sample) - first) for sample in span)
            speech[slice(*edges)] = True
        since = max(first, frame_at(self._analysed))
        if not speech[since - first :].any():
            return
        waveform = np.concatenate([step.waveform for step in steps])
        waveform = waveform[first * FRAME_SAMPLES - begins : until - begins]
        if len(waveform) < FRAME_FIELD:
            return
        (active,) = await active_in(self._calls, waveform, [(0, len(waveform))])
        active &= speech[:, None]
        is_line = is_of_line(waveform)
        self._windows += 1
        self._line_windows += is_line
        alone = solos(first, active, since)

        async def embedding(solo: Solo) -> FloatArray:
            parts = [
                waveform[a - first * FRAME_SAMPLES : b - first * FRAME_SAMPLES]
                for a, b in solo.spans()
            ]
            whole = np.concatenate(parts)
            (sound,) = await embedded(self._calls, whole, [(0, len(whole))], is_line=is_line)
            return np.asarray(sound)

        embeddings = await together(embedding(solo) for solo in alone)
        solo_embeddings = [*zip(alone, embeddings, strict=True)]
        self._voices.after_window(first, active, solo_embeddings, is_line=self._is_line)
        self._know(self._voices.sounds)
        if not self._windows % round(REGROUP_S * 1000 / 640):
            await asyncio.to_thread(self._voices.regroup, is_line=self._is_line)

    def _know(self, sounds: FloatArray, *, anew: bool = False) -> None:
        least = LINE_KNOWN if self._is_line else KNOWN
        self._labels.learn(sounds, [least] * len(sounds), anew=anew)

    def _turns(self, runs: Iterable[Run]) -> list[Turn]:
        return self._labels.turns(map(turn_of, runs))
