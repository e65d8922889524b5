"""Recognise one segment: encode, decode and, if the request asks for it, rescore and align."""

from conch.bls.calls import Calls
from conch.recognition.hooks import Heard, decoder_of, recogniser_of
from conch.recognition.languages import (
    is_doubtful,
    knows,
    of_more_languages,
    with_detected_language,
    with_language,
)
from conch.recognition.offline.coverage import has_pause, is_thin
from conch.recognition.rescoring import rescored
from conch.recognition.speech import SpeechSegment
from conch.wire.errors import ComponentError
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment


async def recognize_segment(
    speech: SpeechSegment, options: RecognitionOptions, calls: Calls
) -> Segment:
    """Return a recognised segment, with words if the request asks for them.

    Words are also there if the recogniser's text may leave speech out. Where the text is so
    improbable that the speech is hardly in a language of the decoder, one of more languages is
    asked, if the server has it.
    """
    heard = Heard(speech, calls)
    found = await _recognized(heard, options, calls)
    if not is_doubtful([found], options):
        return found
    others = await of_more_languages(options, calls)
    if others is None:
        return found
    try:
        again = await _recognized(heard, others, calls)
    except ComponentError:
        return found  # there is a text already
    is_foreign = again.language_probability is not None and not knows(
        decoder_of(options), again.language
    )
    return again if is_foreign else found


async def _recognized(heard: Heard, options: RecognitionOptions, calls: Calls) -> Segment:
    recogniser, speech = recogniser_of(options), heard.speech
    probs, threshold = speech.speech_probs, options.vad_threshold
    may_lack = options.coverage and decoder_of(options).may_omit_speech
    is_timed = options.word_timestamps or (may_lack and has_pause(probs, threshold))
    encoded = await heard.by(recogniser)
    start = speech.start if is_timed else None
    first = await recogniser.decode_known(calls, encoded, options, start, None, speech.draft)
    nbest = await rescored(first.nbest, heard, options, calls)
    text = nbest[0].text
    words = first.words.get(text) if is_timed else None
    if words is None:
        words = ()
        if text and (is_timed or (may_lack and is_thin(text, probs, threshold))):
            known = with_language(options, first.language)
            words = await recogniser.align(calls, encoded, text, known, speech.start)
    if words and options.is_rescored:
        words = recogniser.calibrated(words, nbest)
    span = round(speech.start, 3), round(speech.end, 3)
    segment = Segment(*span, tuple(nbest[: options.nbest]), words, lattice=first.lattice)
    if not text:
        return segment
    return with_detected_language(segment, first, options)
