"""Declarations of a request's options, and rules of those that do not go together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


def option(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    longest: int | None = None,
    choices: Callable[[], tuple[str, ...]] | None = None,
    otherwise: str = "",
    decoders: tuple[str, ...] = (),
    is_of_final_text: bool = False,
) -> Any:
    """Return a dataclass field with the metadata for the check, for `--help` and for the docs.

    A `default` of None leaves it to other options, and `otherwise` says what they make of it.
    `longest` is in characters, None for the limit of all texts. `choices` returns the words that
    the option takes, where families add some. `decoders` take it, all if empty. `is_of_final_text`
    is for one that the first of two passes over live audio has no use for.
    """
    metadata = {
        "help": help,
        "low": low,
        "high": high,
        "longest": longest,
        "choices": choices,
        "otherwise": otherwise,
        "decoders": decoders,
        "is_of_final_text": is_of_final_text,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Other:
    """Holds for every value but one, or but those of a tuple."""

    value: Any


@dataclass(frozen=True, slots=True)
class Above:
    """Holds for a number above a limit, or above another option's number."""

    limit: float | str


@dataclass(frozen=True, slots=True)
class Below:
    """Holds for a number below another option's number, times a factor."""

    option: str
    factor: float = 1.0


GIVEN = Other("")
"""Holds for a text that is not empty."""

When = Mapping[str, Any]
"""A condition on the options of a request, by name: all must hold. A value stands for itself, a
tuple for any of its values. `Other`, `Above` and `Below` say more. The names are those of
options, and of properties of `RecognitionOptions`."""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """Options that do not go together."""

    when: When
    """Values that contradict each other; the first name is that of the option at fault."""
    message: str
    """The error, as a format string: {name} is the value of an option."""


def widest_beam(most: int, decoder: str) -> tuple[Rule, ...]:
    """Return the rules of a decoder that keeps at most so many hypotheses."""
    return tuple(
        Rule(
            {name: Above(most), "decoder": decoder},
            f"option '{name}' takes at most {most} with decoder {decoder}; sent: {{{name}}}",
        )
        for name in ("nbest", "beam_size")
    )


def holds(when: When, value_of: Callable[[str], Any]) -> bool:
    return all(_fits(value_of(name), wanted, value_of) for name, wanted in when.items())


def _fits(value: Any, wanted: Any, value_of: Callable[[str], Any]) -> bool:
    match wanted:
        case Other():
            return not _fits(value, wanted.value, value_of)
        case Above():
            limit = value_of(wanted.limit) if isinstance(wanted.limit, str) else wanted.limit
            return bool(value > limit)
        case Below():
            return bool(value < value_of(wanted.option) * wanted.factor)
        case tuple():
            return value in wanted
        case _:
            return bool(value == wanted)
