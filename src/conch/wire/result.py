"""The answer to a request: a `Transcript`. Text, JSON and word times are views of it."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import msgspec

from conch.wire.joining import joined_text

MAX_FP32 = 3.4028234663852886e38
RARE = ("extra", "revised", "speakers", "turns", "overlaps", "relabelled", "turn_events")
"""Fields of `Transcript` that its JSON has only if they hold something."""
RARE_OF_SEGMENT = ("speaker", "emotion", "event")
"""Fields of `Segment` that are left out when empty."""
SCORES = ("score", "am_score", "lm_score", "attention_score", "ctc_score")
"""Fields of `Hypothesis` that are log probabilities, or None."""
_WRITABLE = {"NaN": None, "Infinity": MAX_FP32, "-Infinity": -MAX_FP32}


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a transcript; its times are seconds on the audio's clock."""

    text: str
    """The word, with its punctuation."""
    start: float
    end: float
    confidence: float
    """Geometric mean of the decoder's probabilities of the word's tokens, in (0, 1]. With decoder
    attention and rescoring: the probability that the word is right."""
    speaker: str | msgspec.UnsetType = msgspec.UNSET
    """Who says it, with `speakers`; else it is not in the JSON."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One candidate transcript; every score is a natural logarithm, higher is better."""

    text: str
    """The candidate's text."""
    score: float
    """Score by which candidates are sorted: `am_score`, plus the weights of hotwords, plus
    `lm_weight · lm_score + ctc_weight · ctc_score + attention_weight · attention_score + word_bonus
    · num_words`. Only the terms that the request asks for count. Without `rescore`, decoder wfst
    uses the graph's n-grams and weights: `(lm_score + word_bonus · num_words) / acoustic_scale`."""
    am_score: float
    """Log probability of the text given the audio, by the decoder. With decoder wfst it belongs to
    the best alignment, minus the graph's penalty for each blank."""
    lm_score: float | None = None
    """Log probability of the words by the rescorer. Without `rescore`, by the language model of the
    search. None without a language model.

    This part and the next ones are also None if nothing was rescored, as no other text could win.
    """
    num_words: int | None = None
    """Number of words, without punctuation and with numbers spelled. None if nothing needs it."""
    attention_score: float | None = None
    """Log probability of the text by Whisper's decoder; None without `attention_rescore`."""
    ctc_score: float | None = None
    """Log probability of the text's letters by the CTC model; None without `ctc_rescore`."""


@dataclass(frozen=True, slots=True)
class Unrecognised:
    """Speech for which no decoder found a text; its times are seconds on the audio's clock."""

    start: float
    end: float
    heard: str = ""
    """Text of the CTC model for this stretch: a hint, too uncertain for the transcript."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A span of speech that was decoded as one; its times are seconds on the audio's clock."""

    start: float
    end: float
    nbest: tuple[Hypothesis, ...]
    """Candidates, best first."""
    words: tuple[Word, ...] = ()
    """Words of the best candidate, with `word_timestamps`."""
    unrecognised: tuple[Unrecognised, ...] = ()
    """Speech that the text leaves out."""
    index: int = 0
    """Live: number of the utterance, from 0."""
    endpoint: str = ""
    """Live: why the utterance ended: `silence`, `length`, `end` of the stream, or `lost`, if the
    client has continued in another stream after its firm words."""
    passes: int = 1
    """Live: 2 if the text is that of the second pass."""
    error: str = ""
    """Live: why there is no second pass, or why the text steps were left out."""
    error_code: str = ""
    """Live: the code of `error` in the protocol, such as INVALID_OPTION."""
    channel: int = 0
    """Recordings: number of the channel, from 1; 0 if the channels are mixed."""
    lattice: str = ""
    """With the option `lattice`: the texts near the best one, before rescoring, a line `from to
    word graph_cost,acoustic_cost,units` for each word."""
    language: str = ""
    """Code of the language of the text (en, de, …); empty where the decoder does not know it."""
    language_probability: float | None = None
    """Probability of the language that was heard, with `language=auto`; among `languages` given
    that it is one of them. None if it was asked for or is the decoder's only one."""
    translated_from: str = ""
    """Code of the language that was spoken, with `task=translate`, which writes English."""
    speaker: str = ""
    """Who says it, with `speakers`; else it is not in the JSON. The segment is then a turn: it has
    one speaker. Live: who says most of it; its words may have others."""
    emotion: str = ""
    """Emotion (happy, sad, angry, neutral, …), if the decoder tells it; else not in the JSON."""
    event: str = ""
    """Sound (speech, bgm, laughter, applause, …), if the decoder tells it; else not in the JSON."""

    @property
    def text(self) -> str:
        """Return the best candidate."""
        return self.nbest[0].text if self.nbest else ""


@dataclass(frozen=True, slots=True)
class Speaker:
    """Somebody who speaks."""

    name: str
    """A, B, … in the order in which they first speak, or the name of a known speaker."""
    seconds: float
    """How long they speak."""
    embedding: str | msgspec.UnsetType = msgspec.UNSET
    """How they sound, with `speaker_embeddings`: float32 in base64; else it is not in the JSON."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A stretch in which somebody speaks, with or without words; another's may overlap it."""

    speaker: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Overlap:
    """A stretch in which several speak. Of their words, the transcript may have those of one."""

    start: float
    end: float
    speakers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TurnEvent:
    """Live: an event of a speaker's turn, before its text."""

    type: Literal["speech_started", "eager_end", "resumed"]
    """Speech has begun; its end is probable; the speaker goes on after all."""
    at: float
    """Time of the event: seconds on the audio's clock."""
    index: int
    """Number of the utterance, as of its segment."""
    probability: float | msgspec.UnsetType = msgspec.UNSET
    """Probability of `eager_end` that the speaker has finished; else not in the JSON."""


@dataclass(frozen=True, slots=True)
class OpenUtterance:
    """Live: the utterance that is being spoken. Its text is that of the three parts, in order.

    Times are seconds on the audio's clock.
    """

    start: float
    firm: tuple[Word, ...] = ()
    """Words that stay until the utterance ends."""
    tentative: tuple[Word, ...] = ()
    """Words of the latest rolling pass that the next one may change."""
    newest: tuple[Word, ...] = ()
    """Words of the first pass, for audio that no rolling pass has heard."""
    heard_until: float = 0.0
    """End of the audio of the latest rolling pass, in seconds; 0 before the first one."""

    @property
    def words(self) -> tuple[Word, ...]:
        return (*self.firm, *self.tentative, *self.newest)

    @property
    def text(self) -> str:
        return text_of_words(self.words)


@dataclass(frozen=True, slots=True)
class RollingPasses:
    """Live: the rolling passes of a stream so far, and the load that decides on them."""

    interval_ms: int
    """Milliseconds of audio between two passes at present; 0 while there are none."""
    made: int = 0
    """Passes that gave a text."""
    skipped: int = 0
    """Passes that the server had no time for."""
    refused: int = 0
    """Passes whose text was not believed: it repeats itself, or has too many words or too few."""
    late_ms: int = 0
    """Milliseconds from when the latest pass was due to its text."""


@dataclass(frozen=True, slots=True)
class Channel:
    """The text of one channel of a recording whose channels are not mixed."""

    number: int
    """Number of the channel, from 1."""
    text: str
    """Text of the best candidate."""
    score: float
    """Score of the best candidate."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Calls of one component for one request."""

    calls: int
    """Number of calls."""
    ms: float
    """Milliseconds in these calls. Calls at the same time add up."""

    def __add__(self, other: "Stage") -> "Stage":
        return Stage(self.calls + other.calls, self.ms + other.ms)


def summed_stages(answers: Iterable[Mapping[str, Stage]]) -> dict[str, Stage]:
    """Return the work of components, by name, summed over answers."""
    totals: dict[str, Stage] = {}
    for stages in answers:
        for name, stage in stages.items():
            totals[name] = totals.get(name, Stage(0, 0.0)) + stage
    return totals


@dataclass(frozen=True, slots=True)
class Transcript:
    """The answer to one request."""

    nbest: tuple[Hypothesis, ...]
    """Candidates for the whole audio, best first; at least one. In the JSON of a live text that is
    not final, the fields of the only one are in place of the list."""
    segments: tuple[Segment, ...]
    """Segments in order of time. Live: those that are new or replaced since the last answer."""
    duration: float
    """Seconds of audio."""
    path: tuple[str, ...]
    """Components that were called, in order of first use. Live: for this chunk, and for the passes
    since the last answer."""
    stages: Mapping[str, Stage]
    """Calls by component; `total` has the time from request to answer."""
    is_final: bool = True
    """Live: whether the stream has ended."""
    stable: str = ""
    """Live: the beginning of `text` that stays. Only the second pass of an utterance, or a text
    step, may correct its firm words once, after its end.

    Before the last answer, `text` begins with the first utterance that is in `segments` or that may
    still change; with `repeat_text`, up to `history_s` before."""
    utterance: OpenUtterance | None = None
    """Live: the utterance that is being spoken; None between utterances."""
    rolling: RollingPasses | None = None
    """Live, two_pass: the rolling passes of the stream."""
    channels: tuple[Channel, ...] = ()
    """Recordings: the channels that were transcribed by themselves; empty if they are mixed."""
    warnings: tuple[str, ...] = ()
    """Recordings: problems of the audio, one sentence each."""
    language: str = ""
    """Language of most of the speech, by the length of its segments; empty if none is known."""
    language_probability: float | None = None
    """Mean of the segments' probabilities, by their length, for that language; None as theirs."""
    translated_from: str = ""
    """Language of most of the speech before its translation, with `task=translate`."""
    extra: Mapping[str, Any] | None = None
    """Recordings: what steps over the whole recording have found, by name; None without such steps,
    and then not in the JSON. Of a streamed answer, in its last part."""
    revised: tuple[Segment, ...] = ()
    """Recordings, the last part of a streamed answer: all segments, in place of those of the parts
    before, if a step over the whole recording has changed some. In the JSON only then."""
    turns: tuple[Turn, ...] = ()
    """Who speaks when, with `speakers`; in the JSON only then, as the next two. Live: what is known
    since the last answer, and at the end the turns of the whole stream. So of a streamed answer."""
    speakers: tuple[Speaker, ...] = ()
    """Who speaks in `turns`, and how long."""
    overlaps: tuple[Overlap, ...] = ()
    """Times at which `turns` overlap."""
    relabelled: tuple[Turn, ...] = ()
    """Last part of live and streamed answers: those of `turns` whose speaker is another than in
    earlier answers; in the JSON only then."""
    turn_events: tuple[TurnEvent, ...] = ()
    """Live, with the option `turn_events`: what was heard of turns since the last answer, in order;
    in the JSON only then. An `eager_end` is taken back by `resumed`, or comes true."""

    @property
    def text(self) -> str:
        """Return the best candidate."""
        return self.nbest[0].text

    @property
    def words(self) -> tuple[Word, ...]:
        """Return the words of all segments."""
        return tuple(word for segment in self.segments for word in segment.words)

    @property
    def unrecognised(self) -> tuple[Unrecognised, ...]:
        """Return the speech that has no text, of all segments."""
        return tuple(span for segment in self.segments for span in segment.unrecognised)

    def by_channel(self) -> Iterator[tuple[int, list[Segment]]]:
        """Yield the number of each channel in order, and its segments."""
        by_number: dict[int, list[Segment]] = {}
        for segment in self.segments:
            by_number.setdefault(segment.channel, []).append(segment)
        yield from sorted(by_number.items())

    def to_json(self) -> str:
        """Return the JSON of the tensor RESULT: all fields, and the text of each n-best list.

        A live text that is not final has one candidate. Its fields stand in place of `nbest`, which
        would repeat the text.
        """
        fields = _fields(self)
        fields["segments"] = [_fields(segment) for segment in self.segments]
        fields["channels"] = [_finite(channel) for channel in self.channels]
        for name in RARE:
            if not fields[name]:
                del fields[name]
        if self.revised:
            fields["revised"] = [_fields(segment) for segment in self.revised]
        if not self.is_final and len(self.nbest) == 1:
            (best,) = fields.pop("nbest")
            fields |= {name: getattr(best, name) for name in best.__dataclass_fields__}
        # Some numbers are numpy's.
        return msgspec.json.encode(fields, enc_hook=float).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "Transcript":
        """Return the transcript of a RESULT or of the output of `conch transcribe --format json`.

        Unknown keys, such as those of a newer server, are ignored. Raise a ValueError for other
        JSON.
        """
        with suppress(msgspec.ValidationError):
            return _READER.decode(text)
        # An open text has no list of candidates, nor has what people read.
        data = msgspec.json.decode(text, type=dict[str, Any])
        for item in (data, *data.get("segments", ()), *data.get("revised", ())):
            if "nbest" not in item:
                item["nbest"] = [dict(item), *item.get("alternatives", ())]
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError:  # perhaps of NaN, which is null in JSON
            return msgspec.convert(_with_nan(data), cls)


_READER = msgspec.json.Decoder(Transcript)


def text_of_words(words: Sequence[Word]) -> str:
    """Return the text of words: with spaces, except between characters of scripts without them."""
    return joined_text(word.text for word in words)


def strict_json(data: Any, **settings: Any) -> str:
    """Return data as strict JSON, without infinity and NaN; `settings` are those of `json.dumps`.

    Infinity becomes the largest FP32, so that the score of an impossible text is still the lowest.
    NaN becomes null.
    """
    settings |= {"ensure_ascii": False}
    try:
        return json.dumps(data, allow_nan=False, **settings)
    except ValueError:  # rare, and checking every number is slow
        loose = json.dumps(data, **settings)
        finite = json.loads(loose, parse_constant=_WRITABLE.__getitem__)
        return json.dumps(finite, allow_nan=False, **settings)


def _fields(item: "Segment | Transcript") -> dict[str, Any]:
    """Return the fields of a segment or a transcript, and its text first."""
    fields = {name: getattr(item, name) for name in item.__dataclass_fields__}
    for name in RARE_OF_SEGMENT:
        if not fields.get(name, True):
            del fields[name]
    return {"text": item.text, **fields, "nbest": [_finite(best) for best in item.nbest]}


_Scored = TypeVar("_Scored", Hypothesis, Channel)


def _finite(item: _Scored) -> _Scored:
    """Return an item with the largest FP32 in place of infinity, as of `strict_json`."""
    changes: dict[str, Any] = {
        name: math.copysign(MAX_FP32, score)
        for name in SCORES
        if (score := getattr(item, name, None)) is not None and math.isinf(score)
    }
    return replace(item, **changes) if changes else item


_NUMBERS = {
    name
    for cls in (Word, Hypothesis, Unrecognised, Segment, OpenUtterance, Channel, Stage, Transcript)
    for name, field in cls.__dataclass_fields__.items()
    if field.type is float
}
"""Names of the fields that are always a number."""


def _with_nan(data: Any) -> Any:
    """Return the value of a JSON text with NaN for the numbers that are null."""
    if isinstance(data, dict):
        return {
            name: math.nan if value is None and name in _NUMBERS else _with_nan(value)
            for name, value in data.items()
        }
    return [_with_nan(item) for item in data] if isinstance(data, list) else data
