"""The language of a segment: detected once, and returned with its text."""

from collections.abc import Sequence
from dataclasses import replace

from conch.bls.calls import Calls
from conch.families import decoders, default_decoders
from conch.families.family import Decoder
from conch.recognition.config import RecognitionConfig
from conch.recognition.hooks import decoder_of
from conch.recognition.speech import Decoded
from conch.wire.languages import codes_of
from conch.wire.options import RecognitionOptions
from conch.wire.parts import IMPROBABLE
from conch.wire.result import Segment

LEAST_LENGTH = 20
"""Characters for which a shorter text counts: of a word alone, the score says little."""
TRANSLATED_INTO = "en"
"""Language of all of Whisper's translations."""


def with_language(options: RecognitionOptions, spoken: str) -> RecognitionOptions:
    """Return the options for further calls about audio whose language was detected.

    The decoder is another one if that of the request does not know the language. `spoken` is empty
    if it is not known.
    """
    if not spoken or options.language != "auto":
        return options
    chosen = replace(options, language=spoken, languages="")
    if knows(decoder_of(options), spoken):
        return chosen
    return chosen.by(next(default_decoders(chosen.value)))


def knows(decoder: Decoder, language: str) -> bool:
    return not decoder.languages or language in decoder.languages


def is_doubtful(segments: Sequence[Segment], options: RecognitionOptions) -> bool:
    """Return whether texts are so improbable that their language is most likely another."""
    score = sum(segment.nbest[0].am_score for segment in segments)
    length = max(sum(len(segment.text) for segment in segments), LEAST_LENGTH)
    return options.language == "auto" and score / length < decoder_of(options).doubtful_below


def language_warnings(segments: Sequence[Segment], options: RecognitionOptions) -> tuple[str, ...]:
    """Return a warning if a recording is most likely in a language that its decoder does not know.

    Segments that another decoder wrote do not count.
    """
    decoder = decoder_of(options)
    own = [item for item in segments if item.text and knows(decoder, item.language)]
    if not own or not is_doubtful(own, options):
        return ()
    known = " and ".join(decoder.languages)
    return (
        f"{IMPROBABLE}, and may be invented: decoder {decoder.name} knows {known} alone; "
        "for another language serve a Whisper that knows it, as conch serve --whisper base does; "
        f"if it is {known}, send language={decoder.languages[0]}",
    )


async def of_more_languages(options: RecognitionOptions, calls: Calls) -> RecognitionOptions | None:
    """Return the options of a decoder of more languages that the server has; None without one."""
    for name in default_decoders(options.value):
        decoder = decoders()[name]
        if not decoder.languages and await calls.has(*decoder.components):
            return options.by(name)
    return None


def with_detected_language(
    segment: Segment, decoded: Decoded, options: RecognitionOptions
) -> Segment:
    """Return a segment with the language, emotion and event of its decoder's result."""
    is_translated = options.task == "translate"
    return replace(
        segment,
        language=TRANSLATED_INTO if is_translated else decoded.language,
        language_probability=decoded.language_probability,
        translated_from=decoded.language if is_translated else "",
        emotion=decoded.emotion,
        event=decoded.event,
    )


def with_only_language(
    segment: Segment, options: RecognitionOptions, config: RecognitionConfig
) -> Segment:
    """Return a segment with the one language that its recogniser knows, if it detects none."""
    if decoder_of(options).detects_language or segment.language or not segment.text:
        return segment
    if options.language != "auto":
        return replace(segment, language=options.language)
    # The language of a named model is unknown.
    return replace(segment, language="" if options.model else config.first_pass_language)


def may_be_in(language: str, options: RecognitionOptions) -> bool:
    """Return whether a recogniser of this language alone may write what a request asks for."""
    chosen = codes_of(options.languages) or (language,)
    is_allowed = options.language in ("auto", language) and language in chosen
    return is_allowed and options.task == "transcribe"
