"""The query of `GET /v1/listen`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from conch.audio.limits import check_rate
from conch.gateway.errors import invalid, one_of
from conch.gateway.live_audio import ENCODINGS, RAW, default_rate
from conch.gateway.models import options_of
from conch.wire.errors import AudioError
from conch.wire.limits import clipped
from conch.wire.option_values import options_of_text
from conch.wire.options import RecognitionOptions, all_options

OWN = ("encoding", "sample_rate", "model", "include", "answers", "told_s")
"""Names in the query that are no options."""
MAX_TOLD_S = 60.0
"""Most seconds at the beginning whose words an earlier session may have sent."""


@dataclass(frozen=True, slots=True)
class ListenQuery:
    """The session that a client asks for."""

    encoding: str
    sample_rate: int
    """Hz of the decoded samples."""
    options: RecognitionOptions
    has_stats: bool
    """Whether there are messages of the path."""
    answers_all: bool
    """Whether each frame gets one answer."""
    has_resume: bool
    """Whether messages say from where another session has to hear the audio."""
    told_s: float
    """Seconds at the beginning whose words an earlier session has sent."""


def query_of(fields: Sequence[tuple[str, str]], aliases: Mapping[str, str]) -> ListenQuery:
    """Return the session of a query; raise an ApiError or OptionError for a wrong field."""
    values = values_of(fields, repeated=("include",))
    encoding = one_of("encoding", values.get("encoding") or "auto", ENCODINGS)
    answers = one_of("answers", values.get("answers") or "text", ("text", "all"))
    if answers == "all" and encoding not in RAW:
        names = ", ".join(RAW)
        message = f"answers=all answers each frame of raw samples: send encoding as {names}"
        raise invalid("encoding", f"{message}; sent: {encoding}")
    included = chain.from_iterable(
        value.split(",") for name, value in fields if name == "include" and value
    )
    parts = {one_of("include", item, ("stats", "resume")) for item in included}
    sent = {name: value for name, value in values.items() if name not in OWN}
    sample_rate = _rate(values.get("sample_rate"), encoding)
    chosen = {
        **options_of(values.get("model", ""), aliases),
        **options_of_text(sent, all_options(), others=OWN),
    }
    if "known_speakers" in chosen:
        chosen.setdefault("speakers", "auto")
    return ListenQuery(
        encoding,
        sample_rate,
        RecognitionOptions.parse(chosen, live=True),
        has_stats="stats" in parts,
        answers_all=answers == "all",
        has_resume="resume" in parts,
        told_s=_told_s(values.get("told_s") or "0"),
    )


def values_of(fields: Sequence[tuple[str, str]], repeated: Sequence[str] = ()) -> dict[str, str]:
    """Return the values of a query; raise an ApiError for a name that comes again."""
    values: dict[str, str] = {}
    for name, value in fields:
        if name in values and name not in repeated:
            both = f"{values[name]!r:.80} and {value!r:.80}"
            shown = clipped(name)
            raise invalid(shown, f"'{shown}' comes once; sent: {both}")
        values[name] = value
    return values


def _told_s(text: str) -> float:
    try:
        seconds = float(text[:20])
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_TOLD_S:
        message = f"told_s takes 0 to {MAX_TOLD_S:g} seconds; sent: {text!r:.80}"
        raise invalid("told_s", message)
    return seconds


def _rate(text: str | None, encoding: str) -> int:
    if not text:
        return default_rate(encoding)
    try:
        check_rate(rate := int(text[:9]) if text.isdecimal() else 0, "sample_rate")
    except AudioError:
        message = f"sample_rate takes 4000 to 192000 Hz; sent: {text!r:.80}"
        raise invalid("sample_rate", message) from None
    return rate
