"""Recognise one segment: encode, decode and, if the request asks for it, rescore and align."""

from conch.bls.calls import Calls
from conch.recognition import ctc_roles, roles
from conch.recognition.confidence import calibrated
from conch.recognition.hotwords import with_hotwords
from conch.recognition.languages import told, with_language
from conch.recognition.offline.coverage import has_pause, is_thin
from conch.recognition.rescoring import rescored
from conch.recognition.speech import Heard, SpeechSegment
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment, Word


async def recognize_segment(
    speech: SpeechSegment, options: RecognitionOptions, calls: Calls
) -> Segment:
    """Return a recognised segment, with words if the request asks for them.

    With decoder attention, words are also there if the text may leave speech out.

    Args:
        speech: The segment.
        options: Options of the request.
        calls: Calls of the request.

    Raises:
        TranscriptionError: a call failed; see `Calls`.
    """
    words: tuple[Word, ...] = ()
    lattice, spoken, probability = "", "", None
    threshold = options.vad_threshold
    heard = Heard(speech, calls)
    if options.decoder != "attention":
        found = await ctc_roles.decode(calls, await heard.log_probs(), options, speech.start)
        nbest = await rescored(found.nbest, heard, options, calls)
        text = nbest[0].text
        words = found.words[text] if options.word_timestamps and text else ()
        lattice = found.lattice
    else:
        encoded = await heard.encoded()
        is_paused = options.coverage and has_pause(speech.speech_probs, threshold)
        is_timed = options.word_timestamps or is_paused
        start = speech.start if is_timed else None
        first = await roles.decode(calls, encoded, options, start)
        spoken, probability, words = first.spoken, first.probability, first.words
        known = with_language(options, spoken)
        named = await with_hotwords(first.nbest, encoded, known, calls)
        nbest = await rescored(named, heard, options, calls)
        text = nbest[0].text
        if text != first.nbest[0].text or not is_timed:
            may_lack = options.coverage and is_thin(text, speech.speech_probs, threshold)
            words = ()
            if text and (is_timed or may_lack):
                words = await roles.align(calls, encoded, text, known, speech.start)
        if words and options.is_rescored:
            words = calibrated(words, nbest)
    nbest = tuple(nbest[: options.nbest])
    segment = Segment(round(speech.start, 3), round(speech.end, 3), nbest, words, lattice=lattice)
    return told(segment, spoken, probability, options) if text else segment
