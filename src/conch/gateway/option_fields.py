"""Options that OpenAI's fields set."""

from collections.abc import Sequence

from conch.client import OptionValue
from conch.families.whisper.declaration import MAX_PROMPT
from conch.wire.errors import OptionError
from conch.wire.options import RecognitionOptions


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
    asked: dict[str, str] = {}
    if len(languages) > 1 and parsed.language == "auto":
        asked["languages"] = ",".join(languages)
    if prompt:
        # The end is nearest to the audio: OpenAI's API too reads only so much of it.
        asked["prompt"] = prompt[-MAX_PROMPT:]
    ignored = []
    for name, value in asked.items():
        try:
            RecognitionOptions.parse({name: value, **options}, live=live)
        except OptionError:
            ignored.append(name)
        else:
            options.setdefault(name, value)
    return ignored
