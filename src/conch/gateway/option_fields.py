"""Options of a request that come as text: fields of a form, or the query of an address."""

from collections.abc import Mapping
from dataclasses import fields

from conch.client import OptionValue
from conch.wire.options import RecognitionOptions, kind_of, words_of

OPTIONS = {item.name: item for item in fields(RecognitionOptions)}
"""The fields of all options, by name."""

_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def options_of_text(sent: Mapping[str, str]) -> dict[str, OptionValue]:
    """Return options with values of their types.

    `RecognitionOptions.parse` checks ranges, and reports text that is no value of the type.

    Args:
        sent: The values as text, by the names of options.

    Raises:
        OptionError: a name is no option.
    """
    for name in sent:
        if name not in OPTIONS:
            RecognitionOptions.parse({name: ""})
    return {name: _value(name, text) for name, text in sent.items()}


def _value(name: str, text: str) -> OptionValue:
    item = OPTIONS[name]
    kind = kind_of(item)
    if text in words_of(item):
        return text
    if kind is bool:
        return _TRUTH.get(text.lower(), text)
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            return text
    return text
