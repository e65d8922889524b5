"""Score the hypotheses of a segment again: by a language model, the CTC model, Whisper's decoder.

Only hypotheses within `rescore_margin` of the best one are scored, and those that the request
returns. A list of which that leaves one text costs no call.
"""

from collections.abc import Sequence
from dataclasses import replace

from conch.bls.calls import Calls, together
from conch.language.normalize import language_model_words
from conch.recognition import ctc_roles, roles
from conch.recognition.metrics import LISTS
from conch.recognition.speech import Heard
from conch.wire.nbest import ranked
from conch.wire.needs import RESCORERS, missing, rescoring_components_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis

CONTEXT_WORDS = 40
"""Words of the text before that the language model reads. They leave room for a prompt."""


async def rescored(
    nbest: Sequence[Hypothesis], heard: Heard, options: RecognitionOptions, calls: Calls
) -> Sequence[Hypothesis]:
    """Return the hypotheses in the order of all opinions that the request asks for.

    Args:
        nbest: The hypotheses of one segment, best first.
        heard: What the acoustic models hear in the segment.
        options: Options of the request.
        calls: Calls of the request.

    Raises:
        TranscriptionError: a call failed; see `Calls`.
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
    has_graph = options.rescore and options.decoder == "wfst"
    calls.count(LISTS, outcome="certain" if len(texts) < 2 else "rescored")
    if len(texts) < 2:
        return [_without_lm(item) for item in candidates] if has_graph else candidates
    lm_scores, ctc_scores, attention_scores = await together(
        opinion([*texts.values()], heard, options, calls)
        for opinion in (_language_scores, _ctc_scores, _attention_scores)
    )
    rows = {words: row for row, words in enumerate(texts)}
    scored = [
        replace(
            item,
            num_words=len(words),
            lm_score=lm_scores[rows[words]] if lm_scores else item.lm_score,
            ctc_score=ctc_scores[rows[words]] if ctc_scores else None,
            attention_score=attention_scores[rows[words]] if attention_scores else None,
        )
        for words, item in zip(spoken, candidates, strict=True)
    ]
    return ranked(scored, options.weights, replaces_lm=has_graph)


def worth_scoring(nbest: Sequence[Hypothesis], options: RecognitionOptions) -> Sequence[Hypothesis]:
    """Return the hypotheses that may win, and as many as the request returns.

    Args:
        nbest: The hypotheses of one segment, best first.
        options: Options of the request.
    """
    least = nbest[0].score - options.rescore_margin
    return [item for rank, item in enumerate(nbest) if rank < options.nbest or item.score >= least]


def _without_lm(item: Hypothesis) -> Hypothesis:
    """Return a hypothesis without the scores of the graph's own language model."""
    return replace(item, lm_score=None, num_words=None)


async def _with_models(options: RecognitionOptions, calls: Calls) -> RecognitionOptions:
    """Return the options with a rescorer that the server has.

    Raises:
        MissingModelError: the server lacks a model. It is raised whether or not this list needs it,
            so that a request does not fail by chance.
    """
    if options.rescore and options.rescorer == "auto":
        is_neural = await calls.is_loaded(RESCORERS["neural"])
        # Only the neural model reads a context, and beside Whisper only it a prompt.
        is_read = options.decoder != "attention" and bool(options.prompt)
        is_neural = is_neural or options.lm_context or is_read
        options = replace(options, rescorer="neural" if is_neural else "ngram")
    for model in rescoring_components_of(options):
        if not await calls.is_loaded(model):
            raise missing(model)
    return options


async def _language_scores(
    texts: list[str], heard: Heard, options: RecognitionOptions, calls: Calls
) -> list[float]:
    """Return the language model's log probability of each text; nothing without `rescore`."""
    if not options.rescore:
        return []
    before = await heard.speech.said_before() if options.lm_context else ""
    context = " ".join(before.split()[-CONTEXT_WORDS:])
    if options.prompt:
        # A paragraph of its own: as part of the speech, an unrelated prompt does more harm.
        context = f"{' '.join(options.prompt.split())}\n\n{context}"
    return await roles.language_scores(calls, texts, options.rescorer, context)


async def _ctc_scores(
    texts: list[str], heard: Heard, options: RecognitionOptions, calls: Calls
) -> list[float]:
    """Return the CTC model's log probability of each text; nothing without `ctc_rescore`."""
    if not options.ctc_rescore:
        return []
    return await ctc_roles.text_scores(calls, await heard.log_probs(), texts, options.language)


async def _attention_scores(
    texts: list[str], heard: Heard, options: RecognitionOptions, calls: Calls
) -> list[float]:
    """Return Whisper's log probability of each text; nothing without `attention_rescore`."""
    if not options.attention_rescore:
        return []
    return await roles.attention_scores(calls, await heard.encoded(), texts, options)
