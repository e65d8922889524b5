"""The steps from a recognised text to the one that is returned: each only where it is asked for.

In this order: `replace`, what families declare, and the models of `post`. Before them, hotwords get
the capitals that punctuation keeps. The text is that of one segment, whose words follow it.
component_models/README.md has the contract of the models.
"""

import asyncio
from dataclasses import replace

import numpy as np

from conch.bls.call import TensorHandle
from conch.bls.calls import Calls, together
from conch.component import Array, bytes_array
from conch.recognition.text.spans import Rewritten, replaced, retimed, rewritten
from conch.wire.errors import (
    ComponentError,
    DeadlineError,
    MissingModelError,
    OptionError,
    TranscriptionError,
    public_error,
)
from conch.wire.hotwords import as_ctc_writes, hotwords_of
from conch.wire.limits import MAX_TEXT
from conch.wire.named_models import post_models
from conch.wire.needs import missing, missing_post, text_components_of
from conch.wire.options import RecognitionOptions
from conch.wire.replacements import read_replacements, replacements_of
from conch.wire.result import Hypothesis, Segment, Word

LIVE_PATIENCE_S = 10.0
"""Longest time for the steps of a live segment, in seconds: the text is wanted now."""


async def check_text_models(options: RecognitionOptions, calls: Calls) -> None:
    """Check that the server has the models of all steps, so that no request fails halfway."""
    for model, reason in text_components_of(options).items():
        if not await calls.is_loaded(model):
            raise _missing(model, reason.split("=")[0])


async def with_text_steps(
    segment: Segment, options: RecognitionOptions, calls: Calls, *, is_punctuated: bool
) -> Segment:
    """Return a segment with the text of all its hypotheses after the steps, and its words.

    Hypotheses that become equal are one, with the better score. An error names the option.
    """
    if not options.has_text_steps or not segment.text:
        return segment
    own = [it for it in options.rewriters if not (is_punctuated and it.adds_punctuation)]
    names = _names(options) if any(it.adds_punctuation for it in own) else {}
    language = segment.language or ("" if options.language == "auto" else options.language)
    models = [(rewriter.component, rewriter.option) for rewriter in own]
    models += [(model, "post") for model in post_models(options.post)]

    async def stepped(text: str) -> tuple[str, tuple[Word, ...]]:
        words = segment.words if text == segment.text else ()
        if said := [forms for forms in names.items() if forms[0] in text]:
            after = replaced(text, replacements_of(said))
            text, words = after.text, retimed(words, text, after)
        if rules := read_replacements(options.replace):
            # In threads: hundreds of rules in long n-best lists, and times of long texts, take
            # seconds.
            after = await asyncio.to_thread(replaced, text, rules)
            if len(after.text) > MAX_TEXT:
                raise OptionError(
                    f"option 'replace' makes texts of at most {MAX_TEXT} characters of a segment; "
                    f"has made: {len(after.text)}"
                )
            text, words = after.text, await asyncio.to_thread(retimed, words, text, after)
        for model, option in models:
            if not text:
                break
            after = await _rewritten_by(model, option, text, language, calls)
            text, words = after.text, await asyncio.to_thread(retimed, words, text, after)
        return text, words

    texts = list(dict.fromkeys(item.text for item in segment.nbest))
    after = dict(zip(texts, await together(map(stepped, texts)), strict=True))
    nbest: dict[str, Hypothesis] = {}
    for item in segment.nbest:
        text, _ = after[item.text]
        nbest.setdefault(text, replace(item, text=text))
    return replace(segment, nbest=tuple(nbest.values()), words=after[segment.text][1])


async def with_text_steps_if_possible(
    segment: Segment, options: RecognitionOptions, calls: Calls, *, is_punctuated: bool
) -> Segment:
    """Return a live segment after the steps, or as it was recognised with the error of a step.

    The next utterance must not get lost by a step, nor wait for one that hangs.
    """
    try:
        async with asyncio.timeout(LIVE_PATIENCE_S) as scope:
            return await with_text_steps(segment, options, calls, is_punctuated=is_punctuated)
    except Exception as failure:
        error: TranscriptionError = public_error(failure)
        if scope.expired():
            error = DeadlineError(f"they have taken longer than {LIVE_PATIENCE_S:g} s")
        problem = "; ".join(filter(None, (segment.error, f"no text steps: {error}")))
        return replace(segment, error=problem, error_code=segment.error_code or error.code)


def _names(options: RecognitionOptions) -> dict[str, str]:
    """Return the hotwords with capitals by what CTC writes for them."""
    hotwords = hotwords_of(options.hotwords, options.hotword_weight)
    written = (item.phrase for item in hotwords if item.phrase != item.phrase.lower())
    return {as_ctc_writes(phrase): phrase for phrase in written}


async def _rewritten_by(
    model: str, option: str, text: str, language: str, calls: Calls
) -> Rewritten:
    inputs: dict[str, Array | TensorHandle] = {"text": bytes_array([text])}
    if language:
        inputs["language"] = bytes_array([language])
    try:
        outputs = await calls(model, inputs, ("text", "spans"))
        new, spans = outputs["text"].numpy(), outputs["spans"].numpy()
        return rewritten(text, _text_of(new), np.asarray(spans))
    except MissingModelError:
        raise _missing(model, option) from None
    except (ComponentError, OptionError) as error:
        raise ComponentError(f"option '{option}': {error}") from error
    except KeyError as error:
        problem = f"it has no output {error}"
    except (IndexError, ValueError) as error:  # IndexError: no batch dimension
        problem = str(error)
    raise ComponentError(
        f"option '{option}': the answer of {model} is not what a text step returns: {problem}"
    )


def _text_of(output: Array | bytes) -> str:
    """Return the one text of an output, which is no array if the model forgot a dimension."""
    array = np.asarray(output)
    if array.dtype != np.object_ or array.size != 1:
        raise ValueError(f"text is BYTES [1]; it is {array.dtype} {list(array.shape)}")
    item = array.item()
    text = item.decode() if isinstance(item, bytes) else str(item)
    if len(text) > MAX_TEXT:
        raise ValueError(f"text takes at most {MAX_TEXT} characters; has: {len(text)}")
    return text


def _missing(model: str, option: str) -> MissingModelError:
    return missing_post(model) if option == "post" else missing(model)
