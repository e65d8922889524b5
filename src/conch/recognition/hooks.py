"""The hooks of families of models, by which recognition calls them without their names.

A hook is an object or a function in `conch.families.NAME`, whose declaration names it. Only a
`FirstPass`, which belongs to one live stream, keeps state between calls.
"""

import math
import pkgutil
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any, Protocol, TypeVar, cast

from conch.bls.call import TensorHandle
from conch.bls.calls import Calls
from conch.component import Array
from conch.families import all_families, decoders
from conch.families.family import Decoder, Hook, RecordingHook
from conch.families.options import holds
from conch.recognition.live.state import LiveUtterance
from conch.recognition.speech import NOTHING_DECODED, Decoded, SpeechProbs, SpeechSegment
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis, Segment, Turn, Word

Encoded = TypeVar("Encoded")


class Recogniser(Protocol[Encoded]):
    """Turns a segment into text by the two components that its `Decoder` declares."""

    encoder: str

    async def encode(self, calls: Calls, waveform: Array) -> Encoded:
        """Return a segment as the decoder takes it; FP32 [samples], 16 kHz."""

    async def encode_open(self, calls: Calls, waveform: Array) -> Encoded:
        """Encode the latest audio of an open live utterance, as `encode` does a segment."""
        return await self.encode(calls, waveform)

    async def decode(
        self, calls: Calls, encoded: Encoded, options: RecognitionOptions, start: float | None
    ) -> Decoded:
        """Return the n-best list of a segment, with all hypotheses that rescoring needs.

        `start` is that of the segment in seconds; None if no words are asked for.
        """

    async def decode_known(
        self,
        calls: Calls,
        encoded: Encoded,
        options: RecognitionOptions,
        start: float | None,
        said: str | None,
        draft: str,
    ) -> Decoded:
        """Decode as `decode` does, with what is known of the text.

        With `said`, even if it is empty, this is the latest audio of an open live utterance. `said`
        is its firm text, with which that of the decoder may begin. `draft` is a guess of what
        follows, or of all text; empty for none.
        """
        return await self.decode(calls, encoded, options, start)

    async def align(
        self, calls: Calls, encoded: Encoded, text: str, options: RecognitionOptions, start: float
    ) -> tuple[Word, ...]:
        """Return the words of a text that `decode` has not aligned."""
        return ()

    def calibrated(self, words: tuple[Word, ...], nbest: Sequence[Hypothesis]) -> tuple[Word, ...]:
        """Return the words of the best hypothesis with confidences that rescoring has improved.

        `nbest` is in the order of all opinions, its scores in nats.
        """
        return words


class Encodings:
    """The outputs of the encoders for a segment: each is called once, and only if needed."""

    def __init__(self, speech: SpeechSegment, calls: Calls) -> None:
        self.speech, self._calls = speech, calls
        self._encoded: dict[str, Any] = dict(speech.encoded)

    async def by(self, recogniser: Recogniser[Encoded]) -> Encoded:
        """Return the output of a recogniser's encoder for the segment."""
        name = recogniser.encoder
        if name not in self._encoded:
            self._encoded[name] = await recogniser.encode(self._calls, self.speech.waveform)
        return cast(Encoded, self._encoded[name])


class FirstPass:
    """Hears one live stream step by step, and owns what its components keep of the stream.

    Each step is heard, then read: between the two the stream finds out whether its utterance ends.
    If a component loses the stream, a first pass goes on with the audio of the open utterance.

    This one hears nothing: all text is that of the passes over the utterance.
    """

    async def hear(
        self,
        waveform: Array,
        utterance: LiveUtterance,
        calls: Calls,
        *,
        ends: bool,
        finds_speech: bool = False,
    ) -> tuple[LiveUtterance, SpeechProbs | None]:
        """Encode a step, FP32 [samples]; `ends` says whether the stream ends with it.

        Take and return the utterance before the step: another one if its audio had to be heard
        again. With `finds_speech`, return speech probabilities too, because no VAD finds speech.
        """
        return utterance, None

    async def read(
        self, utterance: LiveUtterance, calls: Calls, *, is_over: bool
    ) -> tuple[LiveUtterance, Decoded]:
        """Return what the utterance that `hear` returned says after the step; `is_over` ends it."""
        return utterance, NOTHING_DECODED

    async def keep_alive(
        self, utterance: LiveUtterance | None, calls: Calls
    ) -> LiveUtterance | None:
        """Call components that would drop the stream; return the open utterance as it is now."""
        return utterance

    async def close(self) -> None:
        """Free what the components keep of the stream."""


EndFirm = Callable[[LiveUtterance, Calls], Awaitable[LiveUtterance]]
"""Makes a segment of the firm words of an utterance, and returns the rest of the utterance. A first
pass calls it if an utterance that is heard again has lost its firm words."""
BeginFirstPass = Callable[[RecognitionOptions, Calls, float, EndFirm | None], FirstPass]
"""Begins the first pass of a stream: options; calls that may outlive the request of a chunk;
seconds without a call after which `keep_alive` makes one; None where a second pass replaces firm
words anyway."""
FindSpeech = Callable[
    [Calls, Array, Array | TensorHandle | None], Awaitable[tuple[Array, TensorHandle]]
]
"""Returns speech probabilities, FP32 [frames of 32 ms], of FP32 [samples at 16 kHz], and the state
after them. It takes the state of the call before; None at the start of the audio."""
EndOfTurn = Callable[[Calls, Array], Coroutine[None, None, float]]
"""Returns the probability that the speaker has finished, of FP32 [samples at 16 kHz]: a live
utterance so far with the pause after it."""
ScoreTexts = Callable[
    [Calls, list[str], Encodings, RecognitionOptions], Coroutine[None, None, list[float]]
]
"""Returns the log probability of each text of a segment. The texts all sound different."""


@dataclass(frozen=True, slots=True)
class RecognisedSpeech:
    """A segment of a recording, and what the hook's `Hear` has made of its audio."""

    segment: Segment
    analysis: Any = None


@dataclass(frozen=True, slots=True)
class AfterRecordingResult:
    segments: Sequence[Segment]
    """The segments that the hook was given, each changed, cut or not, in order of time."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further findings, as JSON, for `Transcript.extra`."""
    turns: Sequence[Turn] = ()
    """Who speaks when, for `Transcript.turns`."""
    embeddings: Mapping[str, str] = field(default_factory=dict)
    """Embedding of each speaker of `turns`, if requested, for `Transcript.speakers`."""


AfterRecording = Callable[
    [Sequence[RecognisedSpeech], RecognitionOptions, Calls], Awaitable[AfterRecordingResult]
]
"""Works on all segments of a recording in order of time. A live stream forgets its older segments,
so it calls none."""
Prepare = Callable[[RecognitionOptions, Calls], Awaitable[RecognitionOptions]]
"""Checks options for an `AfterRecording` before the audio is read, and returns them with all that
takes calls worked out."""
Hear = Callable[[SpeechSegment, RecognitionOptions, Calls], Coroutine[None, None, Any]]
"""Works on the audio of a segment for an `AfterRecording`, while the segment is recognised."""
InParts = Callable[[RecognisedSpeech], AfterRecordingResult]
"""Works on the next segment of a channel of a streamed answer, as far as the parts before tell. It
returns one segment, and is called in a thread."""
BeginParts = Callable[[RecognitionOptions], InParts]


@dataclass(frozen=True, slots=True)
class StreamTurns:
    turns: Sequence[Turn]
    relabelled: Sequence[Turn]
    """Where an earlier answer has taken somebody else for the speaker."""


class StreamLabels(Protocol):
    """Says who speaks in one live stream, at the same time as its first pass."""

    @property
    def settled_s(self) -> float:
        """Seconds of audio whose turns no longer change before the end."""

    def hear(self, waveform: Array, speech_probs: Array) -> None:
        """Take the next audio, FP32 [samples], and its speech probabilities, [frames of 32 ms].

        It returns at once, and what it begins may come later than the text.
        """

    async def settled(self) -> None:
        """Wait until all audio so far is heard."""

    def turns(self, start: float) -> Sequence[Turn]:
        """Return the turns so far that end after a time in seconds, in order."""

    def take_turns(self) -> Sequence[Turn]:
        """Return the turns that are settled since the last call."""

    async def finish(self) -> StreamTurns:
        """Label all of a stream again that has ended; from then on its turns are these."""

    def cancel(self) -> None:
        """Drop what was begun."""


BeginLabels = Callable[[RecognitionOptions, Calls], StreamLabels]
"""Begins the labels of a stream, with calls that may outlive the request of a chunk."""


def load_hooks() -> None:
    """Import the hooks of all families: the first request does not wait for it."""
    for family in all_families():
        for name in family.hook_names:
            _loaded(name)


async def served(
    options: RecognitionOptions, others: Iterable[RecognitionOptions] | None, calls: Calls
) -> RecognitionOptions:
    """Return the first of `options` and `others` whose decoder the server has.

    `others` are made only as far as needed. If the server has none, return `options`, whose call
    then fails with an error that names what is missing.
    """
    for choice in () if others is None else chain((options,), others):
        decoder = decoder_of(choice)
        pair = decoder.live if choice.mode == "streaming" else decoder.components
        await calls.need(pair)
        if all([await calls.is_loaded(model) for model in pair]):
            return choice
    return options


def decoder_of(options: RecognitionOptions) -> Decoder:
    return decoders()[options.decoder]


def recogniser_of(options: RecognitionOptions) -> Recogniser[Any]:
    return _recogniser(options.decoder)


def second_opinion() -> tuple[str, Recogniser[Any]]:
    """Return the decoder, and its recogniser, that looks for words in gaps of another's text."""
    (decoder,) = filter(None, (family.hooks.second_opinion for family in all_families()))
    return decoder, _recogniser(decoder)


def first_pass_of(options: RecognitionOptions) -> BeginFirstPass:
    hook: BeginFirstPass = _loaded(decoder_of(options.of_first_pass()).first_pass)
    return hook


def speech_finder() -> FindSpeech:
    (name,) = filter(None, (family.hooks.find_speech for family in all_families()))
    hook: FindSpeech = _loaded(name)
    return hook


def end_of_turn(options: RecognitionOptions) -> EndOfTurn | None:
    """Return the hook that detects the end of a turn; None if it is not requested."""
    hooks = (family.hooks.end_of_turn for family in all_families())
    names = [hook.function for hook in hooks if hook and _is_requested(hook, options)]
    return _loaded(names[0]) if names else None


def text_scorers(options: RecognitionOptions) -> Mapping[str, ScoreTexts]:
    """Return the requested hooks that score texts, by the field of `Hypothesis` for the score."""
    hooks = (hook for family in all_families() for hook in family.hooks.score_texts)
    return {hook.score: _loaded(hook.function) for hook in hooks if _is_requested(hook, options)}


async def prepared(options: RecognitionOptions, calls: Calls) -> RecognitionOptions:
    """Return the options after the `Prepare` hooks of the request."""
    for hook in _of_recording(options):
        if hook.prepare:
            prepare: Prepare = _loaded(hook.prepare)
            options = await prepare(options, calls)
    return options


def prepared_s(options: RecognitionOptions) -> float:
    """Return the seconds of audio that `prepared` processes at most."""
    names = filter(None, (hook.prepare_s for hook in _of_recording(options)))
    return math.fsum(_loaded(name)(options) for name in names)


def after_recording(options: RecognitionOptions) -> Sequence[tuple[AfterRecording, Hear | None]]:
    """Return the requested hooks over the whole recording, each with its `Hear`."""
    return [
        (_loaded(hook.function), _loaded(hook.hear) if hook.hear else None)
        for hook in _of_recording(options)
    ]


def in_parts(options: RecognitionOptions) -> Mapping[int, InParts]:
    """Return the requested `InParts`, by the index of their hook in `after_recording`."""
    hooks = enumerate(_of_recording(options))
    return {index: _loaded(hook.in_parts)(options) for index, hook in hooks if hook.in_parts}


def in_stream(options: RecognitionOptions) -> BeginLabels | None:
    """Return the hook that labels the speakers of a live stream; None if it is not requested."""
    hooks = (hook for family in all_families() for hook in family.hooks.in_stream)
    return next((_loaded(hook.function) for hook in hooks if _is_requested(hook, options)), None)


def needs_words(options: RecognitionOptions) -> bool:
    """Return whether a hook over the whole recording needs the words of the segments."""
    return any(hook.needs_words for hook in _of_recording(options))


def _of_recording(options: RecognitionOptions) -> Iterator[RecordingHook]:
    hooks = (hook for family in all_families() for hook in family.hooks.after_recording)
    return (hook for hook in hooks if _is_requested(hook, options))


def _is_requested(hook: Hook, options: RecognitionOptions) -> bool:
    return holds(hook.when, options.value)


def _recogniser(decoder: str) -> Recogniser[Any]:
    hook: Recogniser[Any] = _loaded(decoders()[decoder].recogniser)
    return hook


_loaded = cache(pkgutil.resolve_name)
