"""Give every word and segment its speaker, in a whole recording or in the parts of an answer."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count

import numpy as np

from conch.bls.calls import Calls
from conch.component import SAMPLE_RATE, Array, FloatArray, unit
from conch.families.speakers import EMBEDDING, FRAME_SAMPLES, SEGMENTATION, SETS
from conch.families.speakers.assignment import SegmentAnalysis, VoiceTurn, is_alone, turns_of
from conch.families.speakers.clustering import one_to_one, sure_voices
from conch.families.speakers.pieces import (
    LINE,
    WIDE_BAND,
    Span,
    between,
    is_of_line,
    pieces,
    represented,
    spoken,
    thinned,
    windows,
)
from conch.recognition.hooks import AfterRecordingResult, RecognisedSpeech, Recogniser
from conch.recognition.speech import NOTHING_DECODED, Decoded, SpeechSegment
from conch.wire.known_speakers import KnownSpeaker, embedding_text, known_speakers_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment, Turn
from conch.wire.turns import cut_by_speaker, joined_turns, with_speakers

KNOWN, LINE_KNOWN = 0.5, 0.7
"""Least cosine of a voice to that of a known speaker, the second over a telephone line. One that is
nearest to a name, but below, stays without it."""
LEAST_PIECE = 15_700
"""Samples; shorter pieces found no voices: they are too uncertain."""


class SpeakerLabels:
    """The labels of voices, by their numbers: names of known speakers, and letters of the others.

    A voice has a letter until it is known, and then its name. Letters are given when they are asked
    for, and never to another voice.
    """

    def __init__(self, known: Sequence[KnownSpeaker] = ()) -> None:
        """Speakers without an embedding have none of the names."""
        self._known = [(it.name, it.embedding) for it in known if it.embedding is not None]
        taken = {item.name for item in known}
        self._next = (name for name in map(name_of, count()) if name not in taken)
        self._letters: dict[int, str] = {}
        self._names: dict[int, str] = {}

    def learn(self, voices: FloatArray, least: Sequence[float], *, anew: bool = False) -> None:
        """Name the voices that are known; with `anew`, take back all names before.

        `voices` are of unit length, `[voices, size]`, or zeros; `least` are KNOWN or LINE_KNOWN.
        """
        if anew:
            self._names = {}
        taken = {name for voice, name in self._names.items() if voices[voice].any()}
        free = [item for item in self._known if item[0] not in taken]
        strangers = [voice for voice in range(len(voices)) if voice not in self._names]
        if free and strangers:
            sounds = np.array([sound for _, sound in free])
            matches = matched(voices[strangers], sounds, [least[voice] for voice in strangers])
            self._names |= {strangers[voice]: free[who][0] for voice, who in matches.items()}

    def of(self, voice: int) -> str:
        if voice in self._names:
            return self._names[voice]
        if voice not in self._letters:
            self._letters[voice] = next(self._next)
        return self._letters[voice]

    def turns(self, turns: Iterable[VoiceTurn]) -> list[Turn]:
        return [Turn(self.of(it.voice), round(it.start, 3), round(it.end, 3)) for it in turns]


def matched(voices: FloatArray, known: FloatArray, least: Sequence[float]) -> dict[int, int]:
    """Return which known speaker each voice is, by number; no two voices are the same, best first.

    `voices` and `known` are of unit length, `[N, size]`; `least` are cosines, `[voices]`.
    """
    margins = voices @ known.T - np.array(least)[:, None]
    return one_to_one(np.where(margins >= 0, margins, -np.inf))


def name_of(number: int) -> str:
    """Return a label: A to Z, then AA, AB, …

    >>> name_of(0), name_of(25), name_of(26)
    ('A', 'Z', 'AA')
    """
    before, last = divmod(number, 26)
    return (name_of(before - 1) if before else "") + chr(ord("A") + last)


async def active_in(calls: Calls, waveform: FloatArray, spans: Sequence[Span]) -> Array:
    """Return which of its speakers each window has, bool `[windows, frames, 3]`, for one length."""
    outputs = await calls(SEGMENTATION.name, _inputs(waveform, spans), ("log_probs",))
    return np.asarray(np.array(SETS, bool)[outputs["log_probs"].numpy().argmax(axis=-1)])


async def embedded(
    calls: Calls, waveform: FloatArray, spans: Sequence[Span], *, is_line: bool
) -> FloatArray:
    """Return the embeddings of pieces of a waveform, of unit length, float32 `[pieces, size]`."""
    parameters = {"narrow_band": is_line}
    outputs = await calls(EMBEDDING.name, _inputs(waveform, spans), ("embeddings",), parameters)
    return unit(outputs["embeddings"].numpy())


def _inputs(waveform: FloatArray, spans: Sequence[Span]) -> dict[str, Array]:
    starts, ends = np.array(spans, np.int32).T
    return {"waveform": waveform, "starts": starts, "ends": ends}


async def hear(
    speech: SpeechSegment, options: RecognitionOptions, calls: Calls
) -> SegmentAnalysis | None:
    """Return the networks' analysis of a segment; None if its channel is its speaker."""
    if is_by_channel(options):
        return None
    waveform = speech.waveform
    is_line = is_of_line(waveform)
    band = LINE if is_line else WIDE_BAND
    stretches = spoken(speech.speech_probs, len(waveform), band)
    spans = pieces(spoken(speech.speech_probs, len(waveform), band, is_firm=True))
    if not spans:
        return None
    every = windows(len(waveform), band.step_s)
    firsts = [start // FRAME_SAMPLES for start, _ in every]
    active = [*zip(firsts, await active_in(calls, waveform, every), strict=True)]
    sounds: dict[int, FloatArray] = {}
    indices = thinned(spans, active, band)
    while indices:
        chosen = [spans[index] for index in indices]
        embeddings = await embedded(calls, waveform, chosen, is_line=is_line)
        sounds |= zip(indices, embeddings, strict=True)
        indices = between(sounds, band.alike)
    order = sorted(sounds)
    stands_for = represented(order, len(spans))
    spans = [spans[index] for index in order]
    embeddings = np.stack([sounds[index] for index in order])
    return SegmentAnalysis(
        speech.start, len(waveform), is_line, active, stretches, spans, stands_for, embeddings
    )


async def label(
    recognised: Sequence[RecognisedSpeech], options: RecognitionOptions, calls: Calls
) -> AfterRecordingResult:
    """Return the segments cut at changes of the speaker, with a label each, and all turns."""
    channels = [item.segment.channel for item in recognised]
    voice_turns: list[list[VoiceTurn]] = [[] for _ in recognised]
    sounds: dict[int, FloatArray] = {}
    least: dict[int, float] = defaultdict(lambda: KNOWN)
    for channel in sorted(set(channels)):
        indices = [index for index, own in enumerate(channels) if own == channel]
        if is_by_channel(options):
            sounds[channel] = np.zeros((1, 0), np.float32)
            own_segments = (recognised[index].segment for index in indices)
            spans = [[VoiceTurn(0, item.start, item.end)] for item in own_segments]
        else:
            analyses = [recognised[index].analysis for index in indices]
            if _is_over_line(analyses):
                least[channel] = LINE_KNOWN
            # In a thread: an hour takes seconds.
            sounds[channel] = await asyncio.to_thread(voices_of, analyses, *numbers_of(options))
            spans = await asyncio.to_thread(_turns, analyses, sounds[channel])
        for index, turns in zip(indices, spans, strict=True):
            voice_turns[index] = turns
    in_order = sorted(
        (turn.start, channel, turn.voice)
        for channel, turns in zip(channels, voice_turns, strict=True)
        for turn in turns
    )
    keys = [*dict.fromkeys((channel, voice) for _, channel, voice in in_order)]
    voice_sounds = [sounds[channel][voice] for channel, voice in keys]
    labels = SpeakerLabels(known_speakers_of(options.known_speakers))
    labels.learn(np.array(voice_sounds), [least[channel] for channel, _ in keys])
    called = [*map(labels.of, range(len(keys)))]
    numbers = {key: number for number, key in enumerate(keys)}
    named = [
        labels.turns(turn._replace(voice=numbers[channel, turn.voice]) for turn in turns)
        for channel, turns in zip(channels, voice_turns, strict=True)
    ]
    every = joined_turns(turn for turns in named for turn in turns)
    segments = [
        part
        for item, turns in zip(recognised, named, strict=True)
        for part in labelled(item.segment, turns or every)
    ]
    shown = zip(called, map(embedding_text, voice_sounds), strict=True)
    embeddings = dict(shown) if options.speaker_embeddings else {}
    return AfterRecordingResult(segments, turns=every, embeddings=embeddings)


def labelled(segment: Segment, turns: Sequence[Turn]) -> list[Segment]:
    """Return a segment in parts that have one speaker each, in order of time."""
    return cut_by_speaker(with_speakers(segment, turns))


def numbers_of(options: RecognitionOptions) -> tuple[int, int]:
    """Return the least and the largest number of voices in a channel."""
    number = options.speakers if isinstance(options.speakers, int) else None
    if options.channels == "split":
        number = number or 1
    return number or options.min_speakers, number or options.max_speakers


def voices_of(analyses: Sequence[SegmentAnalysis | None], fewest: int, most: int) -> FloatArray:
    """Return the embeddings of the voices in a channel, of unit length `[voices, size]`."""
    items = [item for item in analyses if item]
    if not items:
        return np.zeros((0, 0), np.float32)
    sounds = np.concatenate([item.embeddings for item in items])
    lengths = np.concatenate([np.diff(np.array(item.pieces), axis=1)[:, 0] for item in items])
    stands_for = np.concatenate([item.stands_for for item in items])
    is_sure = np.concatenate([is_alone(item) for item in items]) & (lengths >= LEAST_PIECE)
    return sure_voices(
        sounds,
        lengths * stands_for,
        is_sure,
        is_line=_is_over_line(items),
        weight_of_second=SAMPLE_RATE,
        fewest=fewest,
        most=most,
    )


def _is_over_line(analyses: Sequence[SegmentAnalysis | None]) -> bool:
    pieces = [(len(item.pieces), item.is_line) for item in analyses if item]
    return 2 * sum(count for count, is_line in pieces if is_line) > sum(
        count for count, _ in pieces
    )


def _turns(analyses: Sequence[SegmentAnalysis | None], sounds: FloatArray) -> list[list[VoiceTurn]]:
    return [turns_of(item, sounds) if item else [] for item in analyses]


def is_by_channel(options: RecognitionOptions) -> bool:
    """Return whether each channel is a speaker whose voice does not matter."""
    is_named = bool(options.known_speakers) or options.speaker_embeddings
    return options.channels == "split" and options.speakers == "auto" and not is_named


class SilentRecogniser(Recogniser[None]):
    """The recogniser of `decoder=none`, which hears nothing: who speaks is asked alone."""

    encoder = ""

    async def encode(self, calls: Calls, waveform: Array) -> None:
        """Return nothing."""

    async def decode(
        self, calls: Calls, encoded: None, options: RecognitionOptions, start: float | None
    ) -> Decoded:
        return NOTHING_DECODED


RECOGNISER = SilentRecogniser()


class PartLabels:
    """Labels the parts of a streamed answer: who speaks as far as is known, until the end decides.

    The voices of the next segment are some of those so far, or new.
    """

    def __init__(self, options: RecognitionOptions) -> None:
        self._is_by_channel, (_, self._most) = is_by_channel(options), numbers_of(options)
        self._labels = SpeakerLabels(known_speakers_of(options.known_speakers))
        self._channels: list[int] = []
        self._sums: list[FloatArray] = []
        """Sum of each voice's embeddings, weighted by the seconds of its turns."""
        self._least: list[float] = []
        """Cosine from which on each voice is known."""

    def __call__(self, item: RecognisedSpeech) -> AfterRecordingResult:
        """Return the next segment of its channel as a whole, and its turns."""
        segment = item.segment
        own = [voice for voice, of in enumerate(self._channels) if of == segment.channel]
        if self._is_by_channel:
            (voice,) = own or [self._new(segment.channel, np.zeros(0, np.float32), KNOWN)]
            voice_turns = [VoiceTurn(voice, segment.start, segment.end)]
        else:
            voice_turns = (
                self._turns_of(item.analysis, segment.channel, own) if item.analysis else []
            )
        self._labels.learn(unit(np.array(self._sums)), self._least)
        turns = self._labels.turns(voice_turns)
        return AfterRecordingResult(
            [with_speakers(segment, turns) if turns else segment], turns=turns
        )

    def _turns_of(self, analysis: SegmentAnalysis, channel: int, own: list[int]) -> list[VoiceTurn]:
        sounds = voices_of([analysis], 1, self._most)
        least = LINE_KNOWN if analysis.is_line else KNOWN
        before = unit(np.array([self._sums[voice] for voice in own]))
        matches = matched(sounds, before, [least] * len(sounds)) if own else {}
        voices = {index: own[who] for index, who in matches.items()}
        turns = turns_of(analysis, sounds)
        for turn in turns:
            sound = sounds[turn.voice]
            if turn.voice not in voices and len(own) < self._most:
                own.append(self._new(channel, 0 * sound, least))
                voices[turn.voice] = own[-1]
            elif turn.voice not in voices:
                voices[turn.voice] = max(
                    own, key=lambda voice: float(unit(self._sums[voice]) @ sounds[turn.voice])
                )
            voice = voices[turn.voice]
            self._sums[voice] = self._sums[voice] + sound * (turn.end - turn.start)
        return [turn._replace(voice=voices[turn.voice]) for turn in turns]

    def _new(self, channel: int, sound: FloatArray, least: float) -> int:
        self._channels.append(channel)
        self._sums.append(sound)
        self._least.append(least)
        return len(self._sums) - 1
