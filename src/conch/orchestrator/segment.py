"""Recognise one segment: encode, decode and, if the request asks for it, rescore and align."""

from dataclasses import dataclass

from conch.component import Array
from conch.component.waveform import SAMPLE_RATE
from conch.orchestrator import ctc_roles, roles
from conch.orchestrator.calls import Calls
from conch.orchestrator.coverage import has_pause, is_thin
from conch.orchestrator.segmentation import frames_between
from conch.wire.nbest import attention_rescored, rescored
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment, Word


@dataclass(frozen=True, slots=True)
class SpeechSegment:
    """A stretch of audio to recognise."""

    start: float
    """Start in the audio, in seconds."""
    waveform: Array
    """FP32 [samples], 16 kHz."""
    speech_probs: Array
    """Speech probabilities, FP32 [frames] of 32 ms each."""

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return len(self.waveform) / SAMPLE_RATE

    @property
    def end(self) -> float:
        """End in the audio, in seconds."""
        return self.start + self.duration

    def part(self, start: float, end: float) -> "SpeechSegment":
        """Return the part between two times, in seconds from the segment's start."""
        samples = round(start * SAMPLE_RATE), round(end * SAMPLE_RATE)
        return SpeechSegment(
            self.start + start,
            self.waveform[slice(*samples)],
            frames_between(self.speech_probs, *samples),
        )


async def recognize_segment(
    speech: SpeechSegment, options: RecognitionOptions, calls: Calls
) -> Segment:
    """Return a recognised segment, with words if the request asks for them.

    With decoder attention, words are also there if the text may leave speech out.

    Args:
        speech: The segment.
        options: Options of the request.
        calls: Calls of the request.

    Raises:
        TranscriptionError: a call failed; see `Calls`.
    """
    words: tuple[Word, ...] = ()
    threshold = options.vad_threshold
    if options.decoder != "attention":
        log_probs = await ctc_roles.encode(calls, speech.waveform)
        found = await ctc_roles.decode(calls, log_probs, options, speech.start)
        nbest = found.nbest
    else:
        encoded = await roles.encode(calls, speech.waveform)
        is_paused = options.coverage and has_pause(speech.speech_probs, threshold)
        is_timed = options.word_timestamps or is_paused
        nbest, words = await roles.decode(
            calls, encoded, options, speech.start if is_timed else None
        )
        timed = nbest[0].text if is_timed else None
    if options.rescore:  # before attention_rescore, which adds to these scores
        lm_scores = await roles.language_scores(calls, [hypothesis.text for hypothesis in nbest])
        nbest = rescored(nbest, lm_scores, options)
    if options.attention_rescore:
        encoded = await roles.encode(calls, speech.waveform)
        texts = [hypothesis.text for hypothesis in nbest]
        scores = await roles.attention_scores(calls, encoded, texts, options.language)
        nbest = attention_rescored(nbest, scores, options.attention_weight)
    text = nbest[0].text
    if options.decoder != "attention":
        words = found.words[text] if options.word_timestamps and text else ()
    elif text != timed:
        may_lack = options.coverage and is_thin(text, speech.speech_probs, threshold)
        words = ()
        if text and (is_timed or may_lack):
            words = await roles.align(calls, encoded, text, options.language, speech.start)
    return Segment(round(speech.start, 3), round(speech.end, 3), tuple(nbest), words)
