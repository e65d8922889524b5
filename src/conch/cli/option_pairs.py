"""`--option name=value`: turn text of the command line into typed request options."""

from collections.abc import Sequence

from conch.client import OptionValue
from conch.wire.errors import OptionError
from conch.wire.option_texts import options_of_text
from conch.wire.options import RecognitionOptions


def parse_options(pairs: Sequence[str], *, live: bool = False) -> dict[str, OptionValue]:
    """Return the typed request options of `name=value` pairs, or raise an OptionError."""
    texts: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise OptionError(f"an option is written name=value; sent: {pair!r}")
        if name in texts:
            raise OptionError(f"option '{name}' is given twice")
        texts[name] = value
    options = options_of_text(texts)
    # Only check them: the server has the defaults of the others.
    RecognitionOptions.parse(options, live=live)
    return options
