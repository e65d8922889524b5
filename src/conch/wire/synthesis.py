"""The options of a request for speech, its voice among them, and the answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import msgspec

from conch.families import voices, voices_that_stand_for
from conch.families.family import Synthesizer
from conch.families.options import option
from conch.wire.errors import OptionError
from conch.wire.known_speakers import KnownSpeaker, known_speakers_of
from conch.wire.option_values import checked
from conch.wire.result import Stage

MOST_MIXED = 8
MOST_REFERENCE = 5_000_000
"""Characters of a reference: 20 s of stereo in base64 take as many."""
DEFAULT_VOICE = next(iter(voices()))
RATES: Mapping[str, tuple[int, ...]] = {
    "opus": (8000, 12_000, 16_000, 24_000, 48_000),
    "mp3": (8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000),
    "aac": (8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000),
}
"""Rates in Hz of formats that do not have any."""
MAX_WARNINGS = 10


def shares_of(voice: str) -> Mapping[str, float]:
    """Return the shares of the voices that are mixed, in sum 1.

    `voice` is a name, or one of its speakers, `NAME#SPEAKER`; or several with commas, each with its
    share behind a colon, or 1 without. Raise an OptionError if it is none of these.
    """
    known = voices()
    voice = voices_that_stand_for().get(voice, voice)
    name = voice if voice in known else voice.rpartition("#")[0]
    if name in known and (name == voice or known[name].has_speakers):
        return {name: 1.0}
    shares: dict[str, float] = {}
    for part in voice.split(","):
        name, _, share = part.strip().partition(":")
        try:
            shares[name.strip()] = shares.get(name.strip(), 0.0) + float(share or 1)
        except ValueError:
            raise OptionError.of("voice", "a number as the share of a voice", voice) from None
    if unknown := [name for name in shares if name not in known]:
        mixed = [name for name, item in known.items() if item.mixes]
        hint = f", or a mix such as {mixed[0]}:0.4,{mixed[-1]}:0.6" if mixed else ""
        takes = f"one of {', '.join(known)}{hint}, or a voice of conch serve --piper FOLDER"
        raise OptionError.of("voice", takes, unknown[0])
    if len({known[name] for name in shares}) > 1 or not known[next(iter(shares))].mixes:
        raise OptionError.of("voice", "a mix of voices of one model that can be mixed", voice)
    if len(shares) > MOST_MIXED or not all(0 < share <= 1000 for share in shares.values()):
        takes = f"a mix of at most {MOST_MIXED} voices with shares above 0"
        raise OptionError.of("voice", takes, voice)
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}


def synthesizer_of(voice: str) -> Synthesizer:
    """Return what speaks a voice or a mix; raise an OptionError if `shares_of` does not know it."""
    return voices()[next(iter(shares_of(voice)))]


def reference_of(text: str) -> KnownSpeaker | None:
    """Return the speaker of `reference`, None if it is empty; raise an OptionError if wrong."""
    try:
        speakers = known_speakers_of(text)
    except OptionError as error:
        raise OptionError(str(error).replace("'known_speakers'", "'reference'")) from None
    if len(speakers) > 1 or (text.strip() and not speakers):
        raise OptionError.of("reference", "one entry", len(speakers))
    return speakers[0] if speakers else None


@dataclass(frozen=True, kw_only=True)
class SynthesisOptions:
    """The options of one request for speech, with their defaults."""

    voice: str = option(
        DEFAULT_VOICE,
        "who speaks: a name of conch voices, or a mix such as NAME:0.4,OTHER:0.6",
    )
    reference: str = option(
        "",
        "in place of voice: a JSON list with one object of known_speakers, whose audio has 3 to "
        "20 s; the voice is the mix that is nearest to it",
        longest=MOST_REFERENCE,
    )
    speed: float = option(1.0, "how fast; 2 takes half the time", low=0.25, high=4)
    format: Literal["pcm_f32", "pcm_s16", "wav", "mp3", "opus", "flac", "aac"] = option(
        "pcm_f32",
        "of the audio: pcm_f32 is the tensor WAVEFORM, any other is the tensor AUDIO, as bytes",
    )
    sample_rate: int = option(
        0, "Hz of the audio, at least 8000; 0 is the voice's own", low=0, high=48_000
    )
    timestamps: bool = option(False, "start and end of every word")
    normalize: bool = option(
        True, "read numbers, dates, money, units and abbreviations as they are spoken"
    )
    seed: int = option(
        0, "of the noise in the voice; the same one gives the same sound", low=0, high=2**31 - 1
    )
    lead_ms: int = option(
        0,
        "milliseconds for which the audio before still plays: the first sound may take so long",
        low=0,
        high=86_400_000,
    )
    deadline_ms: int = option(
        0, "time budget of the whole answer; 0 is none", low=0, high=86_400_000
    )

    @classmethod
    def parse(cls, parameters: Mapping[str, Any], *, any_voice: bool = False) -> "SynthesisOptions":
        """Build options from request parameters; `any_voice` takes one that only a server knows.

        Raise an OptionError for an unknown name, a wrong type, or a value out of range.
        """
        options = cls(**checked({item.name: item for item in fields(cls)}, parameters))
        if not any_voice:
            synthesizer_of(options.voice)
        reference_of(options.reference)
        rate, allowed = options.sample_rate, RATES.get(options.format)
        if rate and (rate < 8000 or (allowed and rate not in allowed)):
            takes = ", ".join(map(str, allowed)) if allowed else "8000 to 48000"
            takes = f"{takes} with format {options.format}, or 0 for the voice's own"
            raise OptionError.of("sample_rate", takes, rate)
        return options


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """A word as the text has it; its times are seconds from the begin of the audio."""

    text: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class SpokenSentence:
    """A sentence, or a part of one that is too long; times are seconds."""

    text: str
    phonemes: str
    """Phonemes of the text."""
    start: float
    end: float
    words: tuple[SpokenWord, ...] = ()
    """Words with times, if the option `timestamps` is set."""

    def later(self, seconds: float) -> "SpokenSentence":
        def at(time_s: float) -> float:
            return round(time_s + seconds, 4)

        words = tuple(SpokenWord(word.text, at(word.start), at(word.end)) for word in self.words)
        return replace(self, start=at(self.start), end=at(self.end), words=words)


@dataclass(frozen=True, slots=True)
class Spoken:
    """What was spoken. A chunk of a streamed answer has the sentences that begin in it.

    The last chunk has no audio, and the figures of all.
    """

    duration: float
    """Seconds of audio so far."""
    sample_rate: int
    voice: str
    sentences: tuple[SpokenSentence, ...] = ()
    path: tuple[str, ...] = ()
    """Components that were called, in order of first use."""
    stages: Mapping[str, Stage] = field(default_factory=dict)
    """Calls by component, and `total`."""
    warnings: tuple[str, ...] = ()
    similarity: float | None = None
    """With the option `reference`: cosine between the embeddings of the recording and the speech;
    None for a text that is too short."""
    is_fitted: bool = False
    """Whether the voice imitates a person."""

    def later(self, seconds: float) -> "Spoken":
        """Return the answer as it is behind other audio, which takes some seconds."""
        sentences = tuple(item.later(seconds) for item in self.sentences)
        return replace(self, duration=round(seconds + self.duration, 4), sentences=sentences)

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "Spoken":
        """Read what `to_json` wrote; raise a ValueError for something else."""
        return msgspec.json.decode(text, type=cls)


def joined(answers: Sequence[Spoken]) -> Spoken:
    """Return the answer to a text of which the chunks of a streamed answer speak parts."""
    last = answers[-1]
    return replace(last, sentences=tuple(item for part in answers for item in part.sentences))
