"""The values of one option: what it takes in words, its value from a text, and its check."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import Field
from typing import Any, Literal, get_args, get_origin

from conch.wire.errors import OptionError
from conch.wire.limits import MAX_PARAMETERS, MAX_TEXT, clipped

_BOOLS = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?", re.ASCII | re.I)


def describe(item: "Field[Any]") -> str:
    """Return the type and range of an option in words, for error messages and `--help`."""
    names = {bool: "a bool (true or false)", int: "an integer", float: "a number", str: "a string"}
    words, value_type = words_of(item), type_of(item)
    if value_type is None:
        return "one of " + ", ".join(words)
    low, high = item.metadata["low"], item.metadata["high"]
    text = names[value_type] + ("" if low is None else f" from {low:.10g} to {high:.10g}")
    return ", ".join(words) + f" or {text}" if words else text


def words_of(item: "Field[Any]") -> tuple[str, ...]:
    """Return the words that an option takes; empty if it takes any value of its type."""
    if choices := item.metadata["choices"]:
        words: tuple[str, ...] = choices()
        return words
    hints = (item.type, *get_args(item.type))
    return next((get_args(hint) for hint in hints if get_origin(hint) is Literal), ())


def type_of(item: "Field[Any]") -> type | None:
    """Return the type of the values that an option takes next to words, or None."""
    if item.metadata["choices"]:
        return None
    hints = (item.type, *get_args(item.type))
    return next((hint for hint in hints if isinstance(hint, type)), None)


def default_of(item: "Field[Any]") -> str:
    """Return the default of an option in words, for `--help` and docs/guide/options.md."""
    otherwise: str = item.metadata["otherwise"]
    if item.default is None:
        return otherwise
    default = str(item.default).lower() if isinstance(item.default, bool) else str(item.default)
    return "; ".join(filter(None, (default or "none", otherwise)))


def unknown_name(name: str, known: Sequence[str]) -> str:
    """Return the error message for an option that does not exist, with the closest that does."""
    name = clipped(name)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else f"; the options are {', '.join(known)}"
    return f"unknown option '{name}'{hint}"


def checked(known: Mapping[str, "Field[Any]"], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return each option's checked value; raise an OptionError for a wrong one, or too many."""
    if len(parameters) > MAX_PARAMETERS:
        raise OptionError(
            f"a request takes at most {MAX_PARAMETERS} options; sent: {len(parameters)}"
        )
    for name in parameters:
        if name not in known:
            raise OptionError(unknown_name(name, list(known)))
    return {name: _checked(known[name], value) for name, value in parameters.items()}


def _checked(item: "Field[Any]", value: Any) -> Any:
    most = item.metadata["longest"] or MAX_TEXT
    if isinstance(value, str) and len(value) > most:
        raise OptionError.of(item.name, f"at most {most} characters", len(value))
    if words_of(item) and type_of(item) is int and isinstance(value, str):
        # Command lines and HTTP headers send numbers as text.
        value = int(value) if value.isdecimal() and len(value) < 10 else value
    if not _fits(item, value):
        raise OptionError.of(item.name, describe(item), value)
    return float(value) if type_of(item) is float else value


def _fits(item: "Field[Any]", value: Any) -> bool:
    value_type = type_of(item)
    if isinstance(value, str) and value in words_of(item):
        return True
    if value_type in (None, bool, str):
        return value_type is not None and isinstance(value, value_type)
    # In Python bool is an int, but nbest=true is a mistake.
    if isinstance(value, bool) or not isinstance(value, int if value_type is int else int | float):
        return False
    low, high = item.metadata["low"], item.metadata["high"]
    fits: bool = low <= value <= high  # infinity and NaN are between no two numbers
    return fits


def options_of_text(
    texts: Mapping[str, str],
    known: "Mapping[str, Field[Any]]",
    *,
    others: Sequence[str] = (),
) -> dict[str, bool | int | float | str]:
    """Return options with values of their types; their ranges and rules are still to be checked.

    An empty text sets nothing: forms send one for a field that nobody has filled in. `known` are
    the options that exist. The hint at a wrong name may also be one of `others`.
    """
    for name in texts:
        if name not in known:
            raise OptionError(unknown_name(name, [*known, *others]))
    return {name: _value(known[name], text) for name, text in texts.items() if text.strip()}


def _value(item: "Field[Any]", text: str) -> bool | int | float | str:
    value_type = type_of(item)
    if value_type is str or text in words_of(item):
        return text
    if value_type is bool and text.lower() in _BOOLS:
        return _BOOLS[text.lower()]
    if value_type is int and _INTEGER.fullmatch(text):
        return int(text)
    if value_type is float and _NUMBER.fullmatch(text):
        return float(text)
    raise OptionError.of(item.name, describe(item), text)
