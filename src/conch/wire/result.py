"""What a request is answered with: one `Transcript`; text, JSON and word times are views of it."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

MAX_FP32 = 3.4028234663852886e38
_WRITABLE = {"NaN": None, "Infinity": MAX_FP32, "-Infinity": -MAX_FP32}


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a transcript."""

    text: str
    """The word, with its punctuation."""
    start: float
    """Seconds on the audio's clock."""
    end: float
    """Seconds on the audio's clock."""
    confidence: float
    """Geometric mean of the decoder's probabilities of the word's tokens, in (0, 1]."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One candidate transcript; every score is a natural logarithm, higher is better."""

    text: str
    """The candidate's text."""
    score: float
    """What orders the candidates: `am_score`, plus the hotwords' weights, plus
    `attention_weight · attention_score`, plus `lm_weight · lm_score + word_bonus · num_words`, as
    far as the request asks for them. Without `rescore`, decoder wfst takes the graph's own n-grams
    and weights for the last: `(lm_score + word_bonus · num_words) / acoustic_scale`."""
    am_score: float
    """Log probability of the text given the audio, by the decoder. With decoder wfst it is that of
    the best alignment, less the blank penalty of the graph for each blank."""
    lm_score: float | None = None
    """Log probability of the words by the rescorer or, without `rescore`, by the language model of
    the search; None without both."""
    num_words: int | None = None
    """Words as the language model counts them; None without a language model."""
    attention_score: float | None = None
    """Log probability of the text by Whisper's decoder; None without `attention_rescore`."""


@dataclass(frozen=True, slots=True)
class Unrecognised:
    """A stretch of speech that no decoder found a text for."""

    start: float
    """Seconds on the audio's clock."""
    end: float
    """Seconds on the audio's clock."""
    heard: str = ""
    """What the CTC model recognised there: a hint, too uncertain for the text."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A span of speech that was decoded as one, with its n-best list, best first."""

    start: float
    """Seconds on the audio's clock."""
    end: float
    """Seconds on the audio's clock."""
    nbest: tuple[Hypothesis, ...]
    """Candidates, best first."""
    words: tuple[Word, ...] = ()
    """Words of the best candidate, with `word_timestamps`."""
    unrecognised: tuple[Unrecognised, ...] = ()
    """Speech that the text leaves out."""
    index: int = 0
    """Live: number of the utterance, from 0."""
    endpoint: str = ""
    """Live: why the utterance ended: `silence`, `length`, or `end` of the stream."""
    passes: int = 1
    """Live: 2 if the text is that of the second pass."""
    error: str = ""
    """Live: why there is no second pass."""
    channel: int = 0
    """Recordings: number of the channel, from 1; 0 if the channels are mixed."""

    @property
    def text(self) -> str:
        """Return the best candidate."""
        return self.nbest[0].text if self.nbest else ""


@dataclass(frozen=True, slots=True)
class Channel:
    """What is said on one channel of a recording whose channels are not mixed."""

    number: int
    """Number of the channel, from 1."""
    text: str
    """Text of the best candidate."""
    score: float
    """Score of the best candidate."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What one component cost a request."""

    calls: int
    """Calls of the component."""
    ms: float
    """Milliseconds in these calls; calls in flight at once each count."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """The answer to one request."""

    nbest: tuple[Hypothesis, ...]
    """Candidates for the whole audio, best first; at least one."""
    segments: tuple[Segment, ...]
    """In order of time."""
    duration: float
    """Seconds of audio."""
    path: tuple[str, ...]
    """The components that were called, in order of first use; of a stream, for this chunk."""
    stages: Mapping[str, Stage]
    """By component, plus `total` for the time from request to answer."""
    is_final: bool = True
    """Live: whether the stream has ended."""
    stable: str = ""
    """Live: the beginning of the text that no longer changes."""
    channels: tuple[Channel, ...] = ()
    """Recordings: the channels that were transcribed by themselves; empty if they are mixed."""
    warnings: tuple[str, ...] = ()
    """Recordings: what is wrong with the audio, a sentence each."""

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

    def to_json(self) -> str:
        """Return the content of the tensor RESULT: all fields, and the text of each n-best."""
        return strict_json(_fields(self), default=_fields)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Transcript":
        """Return the transcript of a RESULT, or of the output of `conch transcribe --format json`.

        Unknown keys, as of a newer server, are ignored.
        """
        data = json.loads(text)
        parts = {
            "nbest": _nbest(data),
            "segments": tuple(_segment(item) for item in data["segments"]),
            "path": tuple(data["path"]),
            "channels": tuple(_known(Channel, item) for item in data.get("channels", ())),
            "warnings": tuple(data.get("warnings", ())),
            "stages": {name: _known(Stage, item) for name, item in data["stages"].items()},
        }
        return cast(Transcript, _known(cls, data | parts))


def strict_json(data: Any, **settings: Any) -> str:
    """Return data as JSON, which has neither infinity nor NaN.

    The largest FP32 stands for infinity, so that a score of an impossible text is still the least,
    and null for what is not a number.

    Args:
        data: to write.
        **settings: of `json.dumps`.
    """
    settings |= {"ensure_ascii": False}
    try:
        return json.dumps(data, allow_nan=False, **settings)
    except ValueError:  # rare, and a look at every number is slow
        loose = json.dumps(data, **settings)
        found = json.loads(loose, parse_constant=_WRITABLE.__getitem__)
        return json.dumps(found, allow_nan=False, **settings)


def _fields(item: Any) -> dict[str, Any]:
    """Return a dataclass's fields; `asdict` copies what is in them: three times the time."""
    fields = {name: getattr(item, name) for name in item.__dataclass_fields__}
    return {"text": item.text, **fields} if "nbest" in fields else fields


def _segment(data: Mapping[str, Any]) -> Segment:
    words = tuple(_known(Word, item) for item in data.get("words", ()))
    left = tuple(_known(Unrecognised, item) for item in data.get("unrecognised", ()))
    fields = {**data, "nbest": _nbest(data), "words": words, "unrecognised": left}
    return cast(Segment, _known(Segment, fields))


def _nbest(data: Mapping[str, Any]) -> tuple[Hypothesis, ...]:
    """Return the hypotheses; in JSON for people the best one's fields stand beside the others."""
    items = data["nbest"] if "nbest" in data else [data, *data.get("alternatives", ())]
    return tuple(_known(Hypothesis, item) for item in items)


def _known(kind: type[Any], data: Mapping[str, Any]) -> Any:
    values = {
        name: math.nan if data[name] is None and item.type is float else data[name]
        for name, item in kind.__dataclass_fields__.items()
        if name in data
    }
    return kind(**values)
