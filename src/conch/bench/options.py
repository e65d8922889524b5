"""`--option name=value`: text from a command line to typed request options."""

from collections.abc import Sequence
from dataclasses import fields

from conch.client import OptionValue
from conch.wire.errors import OptionError
from conch.wire.options import RecognitionOptions

TRUTHS = {"true": True, "false": False}


def parse_options(pairs: Sequence[str], *, live: bool = False) -> dict[str, OptionValue]:
    """Return the request options of `name=value` pairs, each of its field's type.

    Raises:
        OptionError: no `=`, a name twice, or whatever `RecognitionOptions.parse` refuses.
    """
    types = {item.name: item.type for item in fields(RecognitionOptions)}
    options: dict[str, OptionValue] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise OptionError(f"an option is written name=value; sent: {pair!r}")
        if name in options:
            raise OptionError(f"option '{name}' is given twice")
        options[name] = _typed(types.get(name), value)
    # Only to check them: what was not given is left to the server's defaults.
    RecognitionOptions.parse(options, live=live)
    return options


def _typed(kind: object, value: str) -> OptionValue:
    """Return the value in the option's type; as it is, for `parse` to refuse, if it has none."""
    if kind is bool:
        return TRUTHS.get(value.lower(), value)
    if kind in (int, float):
        try:
            return int(value) if kind is int else float(value)
        except ValueError:
            return value
    return value
