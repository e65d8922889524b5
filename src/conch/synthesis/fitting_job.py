"""The work on one voice, from the nearest mix of voices to one that sounds like a person."""

import time
from dataclasses import replace

import msgspec
import numpy as np

from conch.bls.call import Parameter
from conch.bls.calls import Calls
from conch.component import FloatArray
from conch.families.family import Synthesizer
from conch.fitted_voices import STOP, StoredVoice
from conch.synthesis.gradient_ascent import GradientAscent
from conch.synthesis.trial import latents_of, verdict_on

SENTENCES = (
    *("The birch canoe slid on the smooth planks.", "Glue the sheet to the dark blue background."),
    *("It is easy to tell the depth of a well.", "These days a chicken leg is a rare dish."),
    *("Rice is often served in round bowls.", "The juice of lemons makes fine punch."),
    *("The box was thrown beside the parked truck.", "Four hours of steady work faced us."),
)
"""Harvard sentences (IEEE 1969) that a voice is fitted with; `verdict_on` judges it by others."""
STEPS_OF_TRIAL = 20
FRAMES = 60
"""Frames of the stretch of a step."""


class FittingJob:
    """Fits a voice step by step, and keeps it after each, so that it goes on after a restart."""

    def __init__(self, voice: StoredVoice, by: Synthesizer, calls: Calls) -> None:
        """`by` speaks the voice, which has work."""
        assert voice.work is not None
        self._voice, self._work, self._by, self._calls = voice, voice.work, by, calls
        work = voice.work
        self._target, self._held_back, self._deviation, self._start = (
            np.frombuffer(data, np.float32)
            for data in (work.target, work.held_back, work.deviation, voice.start)
        )
        mean = (np.frombuffer(voice.timbre, np.float32) - self._start) / self._deviation
        self._ascent = GradientAscent.of(voice.work, mean, voice.shown.steps)
        self._seconds = voice.shown.seconds
        """Time of the work, without that in which other processes had the cores."""
        self._stop = voice.path.with_suffix(STOP)

    async def run(self) -> None:
        """Fit the voice until its time is over, or it is stopped or removed.

        Raise a ConchError if a component fails, an OSError if the voice cannot be kept.
        """
        self._keep(is_over=False)  # from now on it is no longer queued
        await self._calls.need((*self._by.components, self._by.embedding, self._by.gradient))
        sentences = [await latents_of(text, self._voice, self._calls) for text in SENTENCES]
        while True:
            steps = self._voice.shown.steps
            is_over = self._stop.exists() or self._seconds >= self._work.most_s
            curve = self._voice.shown.curve
            is_judged = bool(curve) and curve[-1][0] == steps
            if (is_over or steps % STEPS_OF_TRIAL == 0) and not is_judged:
                await self._judge()
            if not self._voice.is_there:
                return
            self._keep(is_over=is_over)
            if is_over:
                return self._stop.unlink(missing_ok=True)
            rng = np.random.default_rng(steps)
            latents = sentences[rng.integers(len(sentences))]
            first = rng.integers(max(1, len(latents) - FRAMES + 1))
            await self._step(latents[first : first + FRAMES])

    async def _judge(self) -> None:
        voice, shown = self._voice, self._voice.shown
        began = time.monotonic()
        cosine, wer, now = await verdict_on(voice, self._held_back, self._calls)
        self._seconds += time.monotonic() - began
        similarity, loudness = round(cosine, 3), voice.loudness or now
        is_first = shown.start_similarity is None
        self._voice = msgspec.structs.replace(
            voice,
            loudness=loudness,
            gain=min(1.0, voice.gain * loudness / max(now, 1e-6)),
            shown=replace(
                shown,
                similarity=similarity,
                start_similarity=similarity if is_first else shown.start_similarity,
                wer=wer,
                curve=(*shown.curve, (shown.steps, similarity)),
            ),
        )

    def _keep(self, *, is_over: bool) -> None:
        left_s = 0.0 if is_over else max(0.0, self._work.most_s - self._seconds)
        shown = replace(
            self._voice.shown,
            status="ready" if is_over else "fitting",
            seconds=round(self._seconds, 1),
            seconds_left=round(left_s, 1),
        )
        point, moments = self._ascent.point.tobytes(), self._ascent.moments
        self._work = msgspec.structs.replace(self._work, point=point, moments=moments)
        work = None if is_over else self._work
        self._voice = msgspec.structs.replace(self._voice, shown=shown, work=work)
        self._voice.keep()

    async def _step(self, latents: FloatArray) -> None:
        shown = self._voice.shown
        inputs = {
            "latents": latents,
            "timbre": self._timbre(self._ascent.point),
            "target": self._target,
        }
        parameters: dict[str, Parameter] = {"voice": shown.mix, "seed": shown.steps}
        made = await self._calls(self._by.gradient, inputs, ("gradient", "seconds"), parameters)
        self._seconds += float(made["seconds"].numpy().item())
        self._ascent.step(made["gradient"].numpy().ravel() * self._deviation)
        self._voice = msgspec.structs.replace(
            self._voice,
            shown=replace(shown, steps=shown.steps + 1),
            timbre=self._timbre(self._ascent.mean).tobytes(),
        )

    def _timbre(self, point: FloatArray) -> FloatArray:
        return np.asarray(self._start + self._deviation * point, np.float32)
