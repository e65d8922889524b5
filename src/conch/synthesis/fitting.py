"""Fitting as a service of a BLS model: recordings of a person in, a voice that sounds alike out.

A voice is a mix of voices, a factor of its pitch, and numbers for its timbre. These follow the
gradient of the similarity to the recordings. Voices are fitted one after the other, and the work
goes on after a restart.
"""

import asyncio
import json
import logging
import os
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from rapidfuzz.distance import Levenshtein

from conch import fitted_voices
from conch.bls.call import Components
from conch.bls.calls import Calls
from conch.bls.config import BlsConfig
from conch.bls.metrics import REQUESTS
from conch.bls.runtime import Runtime
from conch.bls.service import AccessRecord, Answer, Message, RequestHeader
from conch.component import Array, FloatArray
from conch.families import likening, replace_voices, voices, voices_that_stand_for
from conch.fitted_voices import (
    CONSENT_VARIABLE,
    LEAST_MINUTES,
    MINUTES,
    MOST_MINUTES,
    STOP,
    FittedVoice,
    StoredVoice,
    Work,
    own_voices,
)
from conch.synthesis.fitting_job import FittingJob
from conch.synthesis.recordings import SAME, VAD, person_of, speech_of
from conch.synthesis.trial import text_of, words_of
from conch.wire.errors import OptionError, OverloadedError, public_error

logger = logging.getLogger(__name__)

MODE = "fitting"
ACTIONS = ("start", "get", "list", "stop", "remove")
"""Values of the request parameter `action`."""
MOST_CONSENT_ERRORS = 0.25
"""Most errors of the recognised sentence, as a share of its words."""
MOST_FAILURES = 10
"""Failures in the work on a voice before it is given up."""
WAIT_S = 5.0
"""Seconds between two looks for work that another server has left, and after a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingConfig(BlsConfig):
    max_encoder_calls: int = 2
    max_calls_in_flight: int = 8
    max_passes_in_flight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingRequest(RequestHeader):
    action: str
    name: str
    minutes: int
    files: tuple[tuple[str, bytes], ...]
    """Recordings, each with the name of its file."""
    consent: bytes


class Fitting:
    def __init__(self, config: FittingConfig, runtime: Runtime) -> None:
        self._runtime, self._voice = runtime, likening()
        self.gauges = runtime.gauges
        self._consent = os.environ.get(CONSENT_VARIABLE, "")
        self._is_allowed = fitted_voices.VARIABLE in os.environ
        self._has_work = asyncio.Event()
        self._working: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        """Lock to hear recordings, which takes memory, and to take a name."""
        self._failures: Counter[str] = Counter()
        """How often the work on a voice has failed, by the voice's id."""

    def parse(self, message: Message) -> FittingRequest:
        tensors, sent = message.read_inputs(), dict(message.parameters)
        action, name = str(sent.pop("action", "list")), str(sent.pop("name", ""))
        minutes = sent.pop("minutes", MINUTES)
        if sent:
            raise OptionError(
                f"no option {next(iter(sent))!r:.80}: there are action, name, minutes"
            )
        if action not in ACTIONS:
            raise OptionError(f"option 'action' takes {', '.join(ACTIONS)}; sent: {action!r:.80}")
        if action != "list" and not fitted_voices.NAME.fullmatch(name):
            raise OptionError(f"option 'name' {fitted_voices.TAKES_NAME}; sent: {name!r:.80}")
        is_whole = isinstance(minutes, int) and not isinstance(minutes, bool)
        if not is_whole or not LEAST_MINUTES <= minutes <= MOST_MINUTES:
            raise OptionError(
                f"option 'minutes' takes a whole number from {LEAST_MINUTES} to {MOST_MINUTES}; "
                f"sent: {minutes!r:.80}"
            )
        audios, consent = _bytes_of(tensors, "AUDIO"), _bytes_of(tensors, "CONSENT")
        names = [item.decode(errors="replace") for item in _bytes_of(tensors, "FILE_NAME")]
        if len(names) != len(audios):
            names = [f"recording {number + 1}" for number in range(len(audios))]
        return FittingRequest(
            action=action,
            name=name,
            minutes=minutes,
            files=tuple(zip(names, audios, strict=True)),
            consent=b"".join(consent),
            **message.header_fields(),
        )

    async def run(
        self, request: FittingRequest, components: Components, record: AccessRecord
    ) -> AsyncGenerator[Answer, None]:
        record.mode = MODE
        size = sum(len(data) for _, data in request.files) + len(request.consent)
        runtime = self._runtime
        with runtime.metrics.answering(REQUESTS, MODE), runtime.admission.arrived(size):
            if not self._is_allowed:
                raise OptionError(
                    "this server takes no recordings to fit voices to; conch serve "
                    "--voices-from-recordings takes those of people whose consent you have"
                )
            # Not before: a server that still starts answers no calls.
            self._working = self._working or asyncio.create_task(self._work())
            self._has_work.set()
            calls = runtime.live_calls(components, MODE)
            if request.action == "list":
                shown = [item.shown.as_dict() for item in fitted_voices.all_stored()]
                text = json.dumps({"fitted": shown, "consent": self._consent})
            elif request.action == "start":
                async with self._starting:
                    text = (await self._started(request, calls)).to_json()
            else:
                text = self._changed(request).to_json()
            record.called(calls.stages)
            yield {"RESULT": np.array([[text.encode()]], np.object_)}

    async def close(self, timeout_s: float) -> None:
        """Stop the work: it goes on when the server is back."""
        if self._working is not None:
            self._working.cancel()

    def _changed(self, request: FittingRequest) -> FittedVoice:
        """Return a voice that is asked for, stopped or removed; raise an OptionError without it."""
        voice = fitted_voices.stored(request.name)
        if voice is None:
            names = ", ".join(item.shown.name for item in fitted_voices.all_stored())
            raise OptionError(
                f"option 'name' takes a fitted voice ({names or 'there is none'}); "
                f"sent: {request.name!r}"
            )
        if request.action == "stop" and voice.shown.status == "queued":
            _end(voice, "it was stopped before its turn came")
        elif request.action == "stop" and voice.shown.is_in_work:
            voice.path.with_suffix(STOP).touch(0o600)
        if request.action == "remove":
            fitted_voices.remove(request.name)
        return (fitted_voices.stored(request.name) or voice).shown

    async def _started(self, request: FittingRequest, calls: Calls) -> FittedVoice:
        """Return a voice whose work begins; raise a TranscriptionError if it cannot."""
        replace_voices(own_voices())
        name = request.name
        if name in {*voices(), *voices_that_stand_for()} or fitted_voices.stored(name):
            raise OptionError(f"option 'name' takes a new name; {name!r} is a voice already")
        await calls.need((VAD, self._voice.embedding, self._voice.voice_style))
        person = await person_of(request.files, calls)
        if self._consent:
            await self._check_consent(request, person.target, calls)
        inputs = {"embedding": person.target, "pitch": np.array([person.pitch], np.float32)}
        outputs = ("style", "pitch", "timbre", "deviation")
        made = await calls(self._voice.voice_style, inputs, outputs)
        style, pitch, timbre, deviation = (made[item].numpy() for item in outputs)
        zeros = np.zeros(len(deviation), np.float32).tobytes()
        voice = StoredVoice(
            shown=FittedVoice(
                name=name,
                mix=style.item().decode(),
                seconds_left=60.0 * request.minutes,
                warnings=person.warnings,
            ),
            pitch=float(pitch.item()),
            start=timbre.tobytes(),
            timbre=timbre.tobytes(),
            work=Work(
                target=person.target.tobytes(),
                held_back=person.held_back.tobytes(),
                deviation=deviation.tobytes(),
                most_s=60.0 * request.minutes,
                point=zeros,
                moments=(zeros, zeros),
            ),
        )
        voice.path.with_suffix(STOP).unlink(missing_ok=True)
        voice.keep()
        return voice.shown

    async def _check_consent(
        self, request: FittingRequest, target: FloatArray, calls: Calls
    ) -> None:
        takes = f"option 'consent' takes a recording of the sentence \"{self._consent}\""
        if not request.consent:
            raise OptionError(takes)
        speech = await speech_of("CONSENT", request.consent, calls)
        text = await text_of(speech.waveform, calls)
        if text is None:
            raise OptionError("this server recognises no speech, so it cannot hear a consent")
        words = words_of(self._consent)
        if Levenshtein.distance(words, words_of(text)) > MOST_CONSENT_ERRORS * len(words):
            raise OptionError(f'{takes}; heard: "{text:.200}"')
        if float(speech.embedding @ target) < SAME:
            raise OptionError(f"{takes}; it sounds like somebody else than the recordings")

    async def _work(self) -> None:
        """Fit the voices that wait, the oldest first, without end."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_S):
                    await self._has_work.wait()
            self._has_work.clear()
            try:
                while await self._has_fitted_one():
                    pass
            except OSError:
                logger.exception("voices cannot be kept in %s", fitted_voices.folder())

    async def _has_fitted_one(self) -> bool:
        try:
            lock = fitted_voices.lock()
        except BlockingIOError:  # another server fits voices of this folder
            return False
        with lock:
            waiting = [item for item in fitted_voices.all_stored() if item.shown.is_in_work]
            if waiting:
                await self._finished(waiting[0])
            return bool(waiting)

    async def _finished(self, voice: StoredVoice) -> None:
        calls = self._runtime.live_calls(self._runtime.detached, MODE)
        try:
            return await FittingJob(voice, self._voice, calls).run()
        except OSError:
            raise
        except Exception as error:  # the others are still to be fitted
            failure = public_error(error)
        # A server that stops is no failure.
        self._failures[voice.id] += not isinstance(failure, OverloadedError)
        logger.error("the voice %r cannot be fitted: %s", voice.shown.name, failure)
        if self._failures[voice.id] < MOST_FAILURES:
            return await asyncio.sleep(WAIT_S)
        latest = fitted_voices.stored(voice.shown.name)
        if latest and latest.id == voice.id:
            _end(latest, str(failure))


def _end(voice: StoredVoice, error: str) -> None:
    shown = replace(voice.shown, status="failed", seconds_left=0.0, error=error)
    msgspec.structs.replace(voice, shown=shown, work=None).keep()
    voice.path.with_suffix(STOP).unlink(missing_ok=True)


def _bytes_of(tensors: Mapping[str, Array], name: str) -> list[bytes]:
    return [] if name not in tensors else [bytes(item) for item in tensors[name].ravel()]
