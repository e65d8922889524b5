"""`--option name=value`: turn text of the command line into typed request options."""

from collections.abc import Sequence

from conch.client import OptionValue
from conch.wire.errors import OptionError
from conch.wire.options import RecognitionOptions, all_options, kind_of

TRUTHS = {"true": True, "false": False}


def parse_options(pairs: Sequence[str], *, live: bool = False) -> dict[str, OptionValue]:
    """Return the request options of `name=value` pairs, each with its field's type.

    Raises:
        OptionError: a pair has no `=`, a name comes twice, or `RecognitionOptions` refuses one.
    """
    types = {item.name: kind_of(item) for item in all_options().values()}
    options: dict[str, OptionValue] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise OptionError(f"an option is written name=value; sent: {pair!r}")
        if name in options:
            raise OptionError(f"option '{name}' is given twice")
        options[name] = _typed(types.get(name), value)
    # Only check them: the server has the defaults of the others.
    RecognitionOptions.parse(options, live=live)
    return options


def _typed(kind: object, value: str) -> OptionValue:
    """Return the value in the option's type, or as it is if `parse` must refuse it."""
    if kind is bool:
        return TRUTHS.get(value.lower(), value)
    if kind in (int, float):
        try:
            return int(value) if kind is int else float(value)
        except ValueError:
            return value
    return value
