"""The hooks of a family of models: what recognition asks of it, and never which family it is.

A hook is a protocol here and an object in `conch.families.NAME`, whose declaration names it. A
hook keeps no state between calls, except a `FirstPass`, which belongs to one live stream.
"""

import pkgutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from conch.bls.call import Tensor
from conch.bls.calls import Calls
from conch.component import Array
from conch.families import all_families
from conch.recognition.decoded import Decoded
from conch.recognition.live.endpointing import SpeechProbs
from conch.recognition.live.state import Utterance
from conch.recognition.speech import Encoded, Encoder, Heard, SpeechSegment
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis, Segment, Word


class Recogniser(Encoder[Encoded], Protocol[Encoded]):
    """Turns a segment into text by a pair of components: an encoder, and a decoder after it.

    Subclasses set the properties that differ from the defaults here.
    """

    decoder: str
    """Name of the decoder's component."""
    writes_punctuation: bool = False
    """Whether its text has punctuation and capitals."""
    detects_language: bool = False
    """Whether it says which language was spoken; otherwise it knows one language."""
    reads_prompt: bool = False
    """Whether it reads the option `prompt`."""
    may_omit_speech: bool = False
    """Whether its text may leave out speech without a sign of it in the score."""
    is_rolling: bool = False
    """Whether it passes over an open live utterance again and again."""
    has_language_model: bool = False
    """Whether its scores hold those of a language model, which a rescorer's scores replace."""

    async def encode_open(self, calls: Calls, waveform: Array) -> Encoded:
        """Return the latest audio of an open live utterance as the decoder takes it.

        Arguments are those of `encode`.
        """
        return await self.encode(calls, waveform)

    async def decode(
        self, calls: Calls, encoded: Encoded, options: RecognitionOptions, start: float | None
    ) -> Decoded:
        """Return the n-best list of a segment, with all hypotheses that rescoring needs.

        Args:
            calls: Calls of the request.
            encoded: Result of `encode`.
            options: Options of the request.
            start: Start of the segment in seconds; None if no words are asked for.
        """
        ...

    async def align(
        self, calls: Calls, encoded: Encoded, text: str, options: RecognitionOptions, start: float
    ) -> tuple[Word, ...]:
        """Return the words of a text that `decode` has not aligned; arguments as of `decode`."""
        return ()

    def calibrated(self, words: tuple[Word, ...], nbest: Sequence[Hypothesis]) -> tuple[Word, ...]:
        """Return the words with confidences by all that is known after rescoring.

        Args:
            words: Words of the best hypothesis, with the decoder's confidence.
            nbest: The hypotheses in the order of all opinions, scores in nats.
        """
        return words


EndFirm = Callable[[Utterance, Calls], Awaitable[Utterance]]
"""Makes a segment of the firm words of an utterance, and returns what is left of the utterance."""


class FirstPass(Protocol):
    """Hears one live stream step by step; owns the state that its components keep of the stream.

    Each step is heard, then read: between the two the stream finds out whether its utterance ends.
    If a component loses the stream, a first pass goes on with the audio of the open utterance.
    """

    encoder: str
    """Component of the first pass. A server may lack it if other passes give all of the text."""

    async def hear(
        self, waveform: Array, utterance: Utterance, calls: Calls, *, ends: bool
    ) -> Utterance:
        """Encode a step.

        Args:
            waveform: The step, FP32 [samples].
            utterance: The utterance before the step.
            calls: Calls of the chunk.
            ends: Whether the stream ends with the step.

        Returns:
            The utterance before the step: another one if its audio had to be heard again.
        """
        ...

    async def hear_and_find_speech(
        self, waveform: Array, utterance: Utterance, calls: Calls, *, ends: bool
    ) -> tuple[Utterance, SpeechProbs]:
        """Encode a step, and find speech in it where no VAD does; arguments as of `hear`."""
        ...

    async def read(
        self, utterance: Utterance, calls: Calls, *, is_over: bool
    ) -> tuple[Utterance, Decoded]:
        """Return what the utterance says after the step that was heard.

        Args:
            utterance: The utterance before the step, as `hear` returned it.
            calls: Calls of the chunk.
            is_over: Whether the utterance ends with the step.
        """
        ...

    async def keep_alive(self, utterance: Utterance | None, calls: Calls) -> Utterance | None:
        """Call the components if they would drop the stream otherwise.

        Args:
            utterance: The open utterance, or None.
            calls: Calls of the chunk.

        Returns:
            The utterance, with its present text.
        """
        ...

    async def close(self) -> None:
        """Free what the components keep of the stream."""
        ...


class BeginFirstPass(Protocol):
    """Begins the first pass of a live stream."""

    def __call__(
        self,
        options: RecognitionOptions,
        detached: Calls,
        keep_alive_s: float,
        end_firm: EndFirm | None,
    ) -> FirstPass:
        """Begin without audio.

        Args:
            options: Options of the stream.
            detached: Calls that may outlive the request of a chunk.
            keep_alive_s: Seconds without a call after which `keep_alive` makes one.
            end_firm: Called if an utterance that is heard again has lost its firm words; None if
                a second pass replaces them anyway.
        """
        ...


class SpeechFinder(Protocol):
    """Finds speech in audio."""

    async def find(
        self, calls: Calls, waveform: Array, state: Array | Tensor | None
    ) -> tuple[Array, Tensor]:
        """Return speech probabilities FP32 [frames] of 32 ms each, and the state after them.

        Args:
            calls: Calls of the request.
            waveform: FP32 [samples], 16 kHz.
            state: State of the call before; None for the start of the audio.
        """
        ...


class TextScorer(Protocol):
    """Scores texts of a segment: one opinion on which of them was said."""

    score: str
    """The field of `Hypothesis` that holds its scores."""

    def is_asked(self, options: RecognitionOptions) -> bool:
        """Return whether a request asks for its opinion; the rescorer is not auto."""
        ...

    async def scores(
        self, calls: Calls, texts: list[str], heard: Heard, options: RecognitionOptions
    ) -> list[float]:
        """Return the log probability of each text.

        Args:
            calls: Calls of the request.
            texts: The texts, which all sound different.
            heard: What the encoders hear in the segment.
            options: Options of the request.
        """
        ...


class TextRewriter(Protocol):
    """A component that rewrites the text of a segment, and when it is asked to.

    component_models/README.md has its tensors.
    """

    component: str
    """Name of the component."""
    option: str
    """Name of the option that asks for it."""

    def is_asked(self, options: RecognitionOptions, *, is_punctuated: bool) -> bool:
        """Return whether a request asks for it.

        Args:
            options: Options of the request.
            is_punctuated: Whether the text has punctuation already.
        """
        ...


@dataclass(frozen=True, slots=True)
class RecognisedSpeech:
    """A segment of a recording, and the audio that it was recognised in."""

    segment: Segment
    speech: SpeechSegment


@dataclass(frozen=True, slots=True)
class AfterRecordingResult:
    """What a hook has made of a recording."""

    segments: Sequence[Segment]
    """The segments that the hook was given, in the same order, each changed or not."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What else was found, as JSON: it becomes `Transcript.extra`."""


class AfterRecording(Protocol):
    """Works on a whole recording when all of its segments are known.

    A live stream has no such hook: it forgets its audio and its older segments.
    """

    def is_asked(self, options: RecognitionOptions) -> bool:
        """Return whether a request asks for it. Only then is the audio of the segments kept."""
        ...

    async def after(
        self, recognised: Sequence[RecognisedSpeech], options: RecognitionOptions, calls: Calls
    ) -> AfterRecordingResult:
        """Return the segments as they are in the end, and what else was found.

        Args:
            recognised: All segments of the recording with their audio, in order of time.
            options: Options of the request.
            calls: Calls of the request.
        """
        ...


def load_hooks() -> None:
    """Import the hooks of all families: the first request does not wait for it."""
    for family in all_families():
        for name in family.hooks.names:
            _loaded(name)


def recogniser_of(options: RecognitionOptions) -> Recogniser[Any]:
    """Return the recogniser that a request asks for."""
    return _recogniser(options.decoder)


def second_opinion() -> tuple[str, Recogniser[Any]]:
    """Return the decoder, and its recogniser, that looks for words in gaps of another's text."""
    (decoder,) = filter(None, (family.hooks.second_opinion for family in all_families()))
    return decoder, _recogniser(decoder)


def first_pass_of(options: RecognitionOptions) -> BeginFirstPass:
    """Return what begins the first pass of a live stream."""
    decoder = options.of_first_pass().decoder
    found: BeginFirstPass = _named(decoder, "first_passes")
    return found


def speech_finder() -> SpeechFinder:
    """Return what finds speech."""
    (name,) = filter(None, (family.hooks.speech_finder for family in all_families()))
    found: SpeechFinder = _loaded(name)
    return found


def text_scorers(options: RecognitionOptions) -> Sequence[TextScorer]:
    """Return what scores the texts of a request again; the rescorer is not auto."""
    return [item for item in _all("text_scorers") if item.is_asked(options)]


def text_rewriters(options: RecognitionOptions, *, is_punctuated: bool) -> Sequence[TextRewriter]:
    """Return what rewrites the text of a request, in its order; arguments as of `is_asked`."""
    rewriters = _all("text_rewriters")
    return [item for item in rewriters if item.is_asked(options, is_punctuated=is_punctuated)]


def after_recording(options: RecognitionOptions) -> Sequence[AfterRecording]:
    """Return the hooks over the whole recording that a request asks for."""
    return [item for item in _all("after_recording") if item.is_asked(options)]


def _recogniser(decoder: str) -> Recogniser[Any]:
    found: Recogniser[Any] = _named(decoder, "recognisers")
    return found


def _named(decoder: str, kind: str) -> Any:
    """Return the hook of a kind that a decoder has.

    Raises:
        LookupError: no family offers one.
    """
    for family in all_families():
        if name := getattr(family.hooks, kind).get(decoder):
            return _loaded(name)
    raise LookupError(f"no family offers {kind} for decoder {decoder}")


def _all(kind: str) -> list[Any]:
    return [_loaded(name) for family in all_families() for name in getattr(family.hooks, kind)]


_loaded = cache(pkgutil.resolve_name)
"""Import a hook by its name."""
