"""Recognise one segment: encode, decode and, if the request asks for it, rescore and align."""

from collections.abc import Sequence
from dataclasses import replace

from conch.bls.calls import Calls, together
from conch.language import language_model_words
from conch.recognition.hooks import Encodings, decoder_of, recogniser_of, text_scorers
from conch.recognition.languages import (
    is_doubtful,
    knows,
    of_more_languages,
    with_detected_language,
    with_language,
)
from conch.recognition.metrics import LISTS
from conch.recognition.offline.coverage import has_pause, is_thin
from conch.recognition.speech import SpeechSegment
from conch.wire.errors import ComponentError
from conch.wire.nbest import ranked
from conch.wire.needs import RESCORERS, missing_all, rescoring_components_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis, Segment


async def recognize_segment(
    speech: SpeechSegment, options: RecognitionOptions, calls: Calls
) -> Segment:
    """Return a recognised segment, with words if the request asks for them.

    Words are also there if the recogniser's text may leave speech out. Where the text is so
    improbable that the speech is hardly in a language of the decoder, one of more languages is
    asked, if the server has it.
    """
    encodings = Encodings(speech, calls)
    segment = await _recognized(encodings, options, calls)
    if not is_doubtful([segment], options):
        return segment
    others = await of_more_languages(options, calls)
    if others is None:
        return segment
    try:
        again = await _recognized(encodings, others, calls)
    except ComponentError:
        return segment  # there is a text already
    is_foreign = again.language_probability is not None and not knows(
        decoder_of(options), again.language
    )
    return again if is_foreign else segment


async def _recognized(encodings: Encodings, options: RecognitionOptions, calls: Calls) -> Segment:
    recogniser, speech = recogniser_of(options), encodings.speech
    probs, threshold = speech.speech_probs, options.vad_threshold
    may_lack = options.coverage and decoder_of(options).may_omit_speech
    is_timed = options.word_timestamps or (may_lack and has_pause(probs, threshold))
    encoded = await encodings.by(recogniser)
    start = speech.start if is_timed else None
    first = await recogniser.decode_known(calls, encoded, options, start, None, speech.draft)
    nbest = await rescored(first.nbest, encodings, options, calls)
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


async def rescored(
    nbest: Sequence[Hypothesis], encodings: Encodings, options: RecognitionOptions, calls: Calls
) -> Sequence[Hypothesis]:
    """Return the hypotheses in the order of all opinions that the request asks for.

    Only those that may win are scored. A list of which that leaves one text costs no call.
    """
    if not options.is_rescored:
        return nbest
    options = await _with_models(options, calls)
    candidates = worth_scoring(nbest, options)
    spoken = [tuple(language_model_words(item.text)) for item in candidates]
    texts: dict[tuple[str, ...], str] = {}
    for words, item in zip(spoken, candidates, strict=True):
        # Texts that differ in case and punctuation alone sound the same: the best speaks for all.
        texts.setdefault(words, item.text)
    replaces_lm = options.rescore and decoder_of(options).has_language_model
    calls.count(LISTS, outcome="certain" if len(texts) < 2 else "rescored")
    if len(texts) < 2:
        if not replaces_lm:
            return candidates
        # Without the scores of the graph's own language model.
        return [replace(item, lm_score=None, num_words=None) for item in candidates]
    scorers, spellings = text_scorers(options), [*texts.values()]
    columns = await together(
        scores(calls, spellings, encodings, options) for scores in scorers.values()
    )
    scores_of = dict(zip(texts, zip(*columns, strict=True), strict=True))
    scored = [
        replace(item, num_words=len(words), **dict(zip(scorers, scores_of[words], strict=True)))
        for words, item in zip(spoken, candidates, strict=True)
    ]
    return ranked(scored, options.weights, replaces_lm=replaces_lm)


def worth_scoring(nbest: Sequence[Hypothesis], options: RecognitionOptions) -> Sequence[Hypothesis]:
    """Return the hypotheses that may win, and as many as the request returns."""
    least = nbest[0].score - options.rescore_margin
    return [item for rank, item in enumerate(nbest) if rank < options.nbest or item.score >= least]


async def _with_models(options: RecognitionOptions, calls: Calls) -> RecognitionOptions:
    """Return the options with a rescorer that the server has.

    A `MissingModelError` is raised whether or not this list needs the model, so that a request does
    not fail by chance.
    """
    if options.rescore and options.rescorer == "auto":
        is_neural = await calls.is_loaded(RESCORERS["neural"])
        # Only the neural model reads a context, or a prompt that the recogniser does not read.
        is_read = bool(options.prompt) and not decoder_of(options).reads_prompt
        is_neural = is_neural or options.lm_context or is_read
        options = replace(options, rescorer="neural" if is_neural else "ngram")
    needs = rescoring_components_of(options)
    if lacking := {name: needs[name] for name in needs if not await calls.is_loaded(name)}:
        raise missing_all(lacking)
    return options
