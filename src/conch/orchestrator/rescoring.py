"""Score the hypotheses of a segment again: by a language model, the CTC model, Whisper's decoder.

Only hypotheses that may still win are scored. A list whose best text leads by more than
`rescore_margin` costs no call.
"""

from collections.abc import Sequence
from dataclasses import replace

from conch.language.normalize import language_model_words
from conch.orchestrator import ctc_roles, roles
from conch.orchestrator.calls import Calls, together
from conch.orchestrator.metrics import LISTS
from conch.orchestrator.speech import Heard
from conch.wire.nbest import ranked
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis


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
    candidates = worth_scoring(nbest, options)
    spoken = [tuple(language_model_words(item.text)) for item in candidates]
    texts: dict[tuple[str, ...], str] = {}
    for words, item in zip(spoken, candidates, strict=True):
        # Texts that differ in case and punctuation alone sound the same: the best speaks for all.
        texts.setdefault(words, item.text)
    calls.count(LISTS, outcome="certain" if len(texts) < 2 else "rescored")
    if len(texts) < 2:
        return nbest
    options = await _with_rescorer(options, calls)
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
    has_graph = options.rescore and options.decoder == "wfst"
    return ranked(scored, options.weights, replaces_lm=has_graph)


def worth_scoring(nbest: Sequence[Hypothesis], options: RecognitionOptions) -> Sequence[Hypothesis]:
    """Return the hypotheses that may win, and as many as the request returns.

    Args:
        nbest: The hypotheses of one segment, best first.
        options: Options of the request.
    """
    least = nbest[0].score - options.rescore_margin
    return [item for rank, item in enumerate(nbest) if rank < options.nbest or item.score >= least]


async def _with_rescorer(options: RecognitionOptions, calls: Calls) -> RecognitionOptions:
    """Return the options with a rescorer that is not auto."""
    if not options.rescore or options.rescorer != "auto":
        return options
    is_neural = await calls.is_loaded(roles.RESCORERS["neural"])
    return replace(options, rescorer="neural" if is_neural else "ngram")


async def _language_scores(
    texts: list[str], heard: Heard, options: RecognitionOptions, calls: Calls
) -> list[float]:
    """Return the language model's log probability of each text; nothing without `rescore`."""
    if not options.rescore:
        return []
    before = await heard.speech.said_before() if options.lm_context else ""
    context = " ".join(filter(None, (options.prompt, before)))
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
    return await roles.attention_scores(calls, await heard.encoded(), texts, options.language)
