"""The hotwords of a request: phrases that a text is to have, each with a weight."""

from dataclasses import dataclass
from functools import lru_cache

from conch.wire.errors import OptionError
from conch.wire.limits import MAX_HOTWORD_TEXT

MAX_HOTWORDS = 2000
MAX_HOTWORD_LENGTH = 100
MAX_HOTWORD_WEIGHT = 100.0
DEFAULT_HOTWORD_WEIGHT = 8.0


@dataclass(frozen=True, slots=True)
class Hotword:
    """A phrase that the text is to have where it may have been said."""

    phrase: str
    weight: float
    """Nats by which a phrase of ten letters is preferred; a shorter or longer one has its share."""


@lru_cache(maxsize=16)
def hotwords_of(text: str, weight: float) -> tuple[Hotword, ...]:
    """Return phrases separated by commas or line ends; a colon and a weight may follow a phrase.

    `weight` is that of a phrase without its own.

    Raises:
        OptionError: the text or a phrase is too long, there are too many, one is empty, or its
            weight is no number or out of range.

    >>> [(item.phrase, item.weight) for item in hotwords_of("Conch:8, Triton  server", 5.0)]
    [('Conch', 8.0), ('Triton server', 5.0)]
    """
    if len(text) > MAX_HOTWORD_TEXT:
        raise OptionError(
            f"option 'hotwords' takes at most {MAX_HOTWORD_TEXT} characters; sent: {len(text)}"
        )
    if not text.strip():
        return ()
    hotwords = tuple(_hotword(item, weight) for item in text.replace("\n", ",").split(","))
    if len(hotwords) > MAX_HOTWORDS:
        raise _out_of_range(f"at most {MAX_HOTWORDS} phrases", len(hotwords))
    return hotwords


def as_ctc_writes(phrases: str) -> str:
    r"""Return phrases in the letters of a CTC model: lower case, with straight apostrophes.

    >>> as_ctc_writes("O\u2019Brien")
    "o'brien"
    """
    return phrases.lower().replace("\u2019", "'")


def _hotword(item: str, weight: float) -> Hotword:
    phrase, colon, own = item.partition(":")
    words = " ".join(phrase.split())
    if not words:
        raise OptionError(
            f"option 'hotwords' takes phrases separated by commas, none of them empty; "
            f"sent: {item!r:.40}"
        )
    if len(words) > MAX_HOTWORD_LENGTH:
        raise _out_of_range(f"phrases of at most {MAX_HOTWORD_LENGTH} characters", words)
    try:
        hotword = Hotword(words, float(own) if colon else weight)
    except ValueError:
        raise OptionError(
            f"option 'hotwords' takes a number after a colon; sent: {item.strip()!r:.60}"
        ) from None
    if not 0 <= hotword.weight <= MAX_HOTWORD_WEIGHT:
        raise _out_of_range(f"weights from 0 to {MAX_HOTWORD_WEIGHT:g}", hotword.weight)
    return hotword


def _out_of_range(wanted: str, sent: object) -> OptionError:
    return OptionError(f"option 'hotwords' takes {wanted}; sent: {sent!r:.80}")
