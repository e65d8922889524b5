"""Options that come as text, in a query or a form, and those that OpenAI's fields set."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import Field
from typing import Any

from conch.client import OptionValue
from conch.families.whisper.declaration import MAX_PROMPT
from conch.wire.errors import OptionError
from conch.wire.options import (
    RecognitionOptions,
    all_options,
    describe,
    kind_of,
    unknown_name,
    words_of,
)

_BOOLS = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?", re.ASCII | re.I)


def options_of_text(
    texts: Mapping[str, str], *, others: Sequence[str] = ()
) -> dict[str, OptionValue]:
    """Return options with values of their types; their ranges and rules are still to be checked.

    Args:
        texts: Options by name.
        others: Further names that are right in the same place, for the hint at a wrong one.

    Raises:
        OptionError: an option does not exist, or its text is no value of its type.
    """
    known = all_options()
    for name in texts:
        if name not in known:
            raise OptionError(unknown_name(name, [*known, *others]))
    return {name: _value(known[name], text) for name, text in texts.items()}


def add_of_openai(
    options: dict[str, OptionValue], languages: Sequence[str], prompt: str, *, live: bool
) -> list[str]:
    """Add to options what OpenAI's fields `languages` and `prompt` set.

    Returns:
        The fields that the decoder does not take, which are left out.

    Raises:
        OptionError: an option is wrong.
    """
    parsed = RecognitionOptions.parse(options, live=live)
    ignored = []
    if len(languages) > 1 and parsed.language == "auto":
        if parsed.takes("languages"):
            options.setdefault("languages", ",".join(languages))
        else:
            ignored.append("languages")
    if prompt:
        if parsed.reads_prompt:
            # The end is nearest to the audio: OpenAI's API too reads only so much of it.
            options.setdefault("prompt", prompt[-MAX_PROMPT:])
        else:
            ignored.append("prompt")
    return ignored


def _value(item: "Field[Any]", text: str) -> OptionValue:
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
