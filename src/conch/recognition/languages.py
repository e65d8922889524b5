"""The language of a segment: detected once, and returned with its text."""

from dataclasses import replace

from conch.recognition.config import RecognitionConfig
from conch.recognition.hooks import decoder_of
from conch.wire.languages import codes_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment

TRANSLATED_INTO = "en"
"""Language of all of Whisper's translations."""


def with_language(options: RecognitionOptions, spoken: str) -> RecognitionOptions:
    """Return the options for further calls about audio whose language was detected.

    `spoken` is empty if it is not known.
    """
    if not spoken or options.language != "auto":
        return options
    return replace(options, language=spoken, languages="")


def with_detected_language(
    segment: Segment, spoken: str, probability: float | None, options: RecognitionOptions
) -> Segment:
    """Return a segment with the language of its text, and with what it was translated from.

    Args:
        segment: The segment.
        spoken: The language of the speech; empty if it is not known.
        probability: Its probability; None if it was not detected.
        options: Options of the request.
    """
    is_translated = options.task == "translate"
    return replace(
        segment,
        language=TRANSLATED_INTO if is_translated else spoken,
        language_probability=probability,
        translated_from=spoken if is_translated else "",
    )


def with_only_language(
    segment: Segment, options: RecognitionOptions, config: RecognitionConfig
) -> Segment:
    """Return a segment with the one language that its recogniser knows, if it detects none."""
    if decoder_of(options).detects_language or segment.language or not segment.text:
        return segment
    is_auto = options.language == "auto"
    return replace(segment, language=config.first_pass_language if is_auto else options.language)


def may_be_in(language: str, options: RecognitionOptions) -> bool:
    """Return whether a recogniser of this language alone may write what a request asks for."""
    chosen = codes_of(options.languages) or (language,)
    is_asked = options.language in ("auto", language) and language in chosen
    return is_asked and options.task == "transcribe"
