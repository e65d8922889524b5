"""Options that come as text: in the query of an address, a form or a command line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import Field
from typing import Any

from conch.wire.errors import OptionError
from conch.wire.option_values import describe, kind_of, unknown_name, words_of
from conch.wire.options import all_options

_BOOLS = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?", re.ASCII | re.I)


def options_of_text(
    texts: Mapping[str, str],
    *,
    others: Sequence[str] = (),
    known: "Mapping[str, Field[Any]] | None" = None,
) -> dict[str, bool | int | float | str]:
    """Return options with values of their types; their ranges and rules are still to be checked.

    An empty text sets nothing: forms send one for a field that nobody has filled in. `known` are
    the options that exist, by default those of recognition. The hint at a wrong name may also be
    one of `others`.
    """
    known = all_options() if known is None else known
    for name in texts:
        if name not in known:
            raise OptionError(unknown_name(name, [*known, *others]))
    return {name: _value(known[name], text) for name, text in texts.items() if text.strip()}


def _value(item: "Field[Any]", text: str) -> bool | int | float | str:
    kind = kind_of(item)
    if kind is str or text in words_of(item):
        return text
    if kind is bool and text.lower() in _BOOLS:
        return _BOOLS[text.lower()]
    if kind is int and _INTEGER.fullmatch(text):
        return int(text)
    if kind is float and _NUMBER.fullmatch(text):
        return float(text)
    raise OptionError(f"option '{item.name}' takes {describe(item)}; sent: {text!r:.80}")
