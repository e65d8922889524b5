"""Label the parts of a streamed answer: who speaks as far as is known, until the end decides."""

import numpy as np

from conch.component import FloatArray
from conch.families.speakers.assignment import HeardSegment, VoiceTurn, turns_of
from conch.families.speakers.clustering import unit
from conch.families.speakers.known import KNOWN, LINE_KNOWN, Labels, matched
from conch.families.speakers.labels import edges_of, is_by_channel, numbers_of, voices_of
from conch.recognition.hooks import AfterRecordingResult, RecognisedSpeech
from conch.wire.known_speakers import known_speakers_of
from conch.wire.options import RecognitionOptions
from conch.wire.turns import with_speakers


class PartLabels:
    """The voices of a recording so far: those of the next segment are some of them, or new."""

    def __init__(self, options: RecognitionOptions) -> None:
        self._is_by_channel, (_, self._most) = is_by_channel(options), numbers_of(options)
        self._labels = Labels(known_speakers_of(options.known_speakers))
        self._channels: list[int] = []
        """Channel of each voice."""
        self._sums: list[FloatArray] = []
        """How each voice sounds, by the seconds of its turns."""
        self._least: list[float] = []
        """Cosine from which on each voice is known."""

    def __call__(self, item: RecognisedSpeech) -> AfterRecordingResult:
        """Return the next segment of its channel as a whole, and its turns."""
        segment = item.segment
        own = [voice for voice, of in enumerate(self._channels) if of == segment.channel]
        if self._is_by_channel:
            (voice,) = own or [self._new(segment.channel, np.zeros(0, np.float32), KNOWN)]
            found = [VoiceTurn(voice, *edges_of(segment))]
        else:
            found = self._heard(item.heard, segment.channel, own) if item.heard else []
        self._labels.learn(unit(np.array(self._sums)), self._least)
        turns = self._labels.turns(found)
        return AfterRecordingResult(
            [with_speakers(segment, turns) if turns else segment], turns=turns
        )

    def _heard(self, heard: HeardSegment, channel: int, own: list[int]) -> list[VoiceTurn]:
        sounds = voices_of([heard], 1, self._most)
        least = LINE_KNOWN if heard.is_line else KNOWN
        before = unit(np.array([self._sums[voice] for voice in own]))
        found = matched(sounds, before, [least] * len(sounds)) if own else {}
        voices = {place: own[who] for place, who in found.items()}
        turns = turns_of(heard, sounds)
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
