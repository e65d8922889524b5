"""Score the hypotheses of a segment again: by a language model, or by another recogniser.

Only hypotheses within `rescore_margin` of the best one are scored, and those that the request
returns. A list of which that leaves one text costs no call.
"""

from collections.abc import Sequence
from dataclasses import replace

from conch.bls.calls import Calls, together
from conch.language import language_model_words
from conch.recognition.hooks import Heard, decoder_of, text_scorers
from conch.recognition.metrics import LISTS
from conch.wire.nbest import ranked
from conch.wire.needs import RESCORERS, missing_all, rescoring_components_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis


async def rescored(
    nbest: Sequence[Hypothesis], heard: Heard, options: RecognitionOptions, calls: Calls
) -> Sequence[Hypothesis]:
    """Return the hypotheses in the order of all opinions that the request asks for."""
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
        return [_without_lm(item) for item in candidates] if replaces_lm else candidates
    scorers, spellings = text_scorers(options), [*texts.values()]
    columns = await together(
        scores(calls, spellings, heard, options) for scores in scorers.values()
    )
    found = dict(zip(texts, zip(*columns, strict=True), strict=True))
    scored = [
        replace(item, num_words=len(words), **dict(zip(scorers, found[words], strict=True)))
        for words, item in zip(spoken, candidates, strict=True)
    ]
    return ranked(scored, options.weights, replaces_lm=replaces_lm)


def worth_scoring(nbest: Sequence[Hypothesis], options: RecognitionOptions) -> Sequence[Hypothesis]:
    """Return the hypotheses that may win, and as many as the request returns."""
    least = nbest[0].score - options.rescore_margin
    return [item for rank, item in enumerate(nbest) if rank < options.nbest or item.score >= least]


def _without_lm(item: Hypothesis) -> Hypothesis:
    """Return a hypothesis without the scores of the graph's own language model."""
    return replace(item, lm_score=None, num_words=None)


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
