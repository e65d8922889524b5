"""Options that fields of other APIs set."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import Field
from typing import Any

from conch.client import OptionValue
from conch.families import rewriters
from conch.gateway.errors import invalid
from conch.gateway.servers import Servers
from conch.wire.errors import OptionError
from conch.wire.known_speakers import option_of
from conch.wire.options import RecognitionOptions, all_options


def taken_options() -> Mapping[str, "Field[Any]"]:
    """Return the options that a form or a query takes by their names; its `model` is OpenAI's."""
    return {name: item for name, item in all_options().items() if name != "model"}


NAMES = ("known_speaker_names", "known_speaker_references")
"""Fields for the option `known_speakers`."""
_NO_PART = str.maketrans(",:\n", "   ")


def with_openais(
    options: Mapping[str, OptionValue], languages: Sequence[str], prompt: str, *, live: bool
) -> tuple[RecognitionOptions, list[str]]:
    """Return checked options with what OpenAI's fields `languages` and `prompt` set.

    Return also which of the two are left out, as the decoder does not take them.
    """
    parsed = RecognitionOptions.parse(options, live=live)
    openais: dict[str, str] = {}
    if len(languages) > 1 and parsed.language == "auto":
        openais["languages"] = ",".join(languages)
    if prompt:
        # The end is nearest to the audio: OpenAI's API too reads only so much of it.
        openais["prompt"] = prompt[-all_options()["prompt"].metadata["longest"] :]
    ignored = []
    for name, value in openais.items():
        try:
            options = {name: value, **options}
            parsed = RecognitionOptions.parse(options, live=live)
        except OptionError:
            ignored.append(name)
            options = parsed.sent
    return parsed, ignored


def wishes_among(names: Collection[str], options: RecognitionOptions) -> dict[str, str]:
    """Return the options among some that a server may leave out, by the component they need."""
    may_lack = ("itn", "punctuate") if options.writes_punctuation else ("itn",)
    return {rewriters()[name].component: name for name in may_lack if name in names}


async def granted(
    servers: Servers, options: RecognitionOptions, wishes: Mapping[str, str], *, live: bool
) -> tuple[RecognitionOptions, dict[str, str]]:
    """Return options without the wishes that the server cannot do, and these with what it lacks."""
    ready = await servers.ready_models(tuple(wishes)) if wishes else ()
    lacking = {option: name for name, option in wishes.items() if name not in ready}
    rest = {name: value for name, value in options.sent.items() if name not in lacking}
    return (RecognitionOptions.parse(rest, live=live) if lacking else options), lacking


def phrase(text: str) -> str:
    """Return a phrase without the signs that separate hotwords and their weights."""
    return " ".join(text.translate(_NO_PART).split())


def known_speakers(
    names: Sequence[str], references: Sequence[str], prefix: str = ""
) -> dict[str, OptionValue]:
    """Return the option that the fields NAMES set; `prefix` is the path before them."""
    if len(names) != len(references):
        raise invalid(
            prefix + NAMES[0],
            f"{NAMES[0]} and {NAMES[1]} go together, a reference for each name; sent: {len(names)} "
            f"and {len(references)}",
        )
    speakers = [{"name": name, "audio": it} for name, it in zip(names, references, strict=True)]
    return {"known_speakers": option_of(speakers)} if speakers else {}
