"""Map a request's options to the components that it needs, and a component to its options."""

from collections.abc import Mapping
from typing import Any

from conch.wire.errors import MissingModelError
from conch.wire.options import RecognitionOptions
from conch.wire.text_steps import INVERSE_NORMALIZER, PUNCTUATOR, post_models

ENTRY_POINTS = ("speech", "speech_stream")
"""The BLS models, which call the components."""

SERVED_VARIABLE = "CONCH_SERVED_MODELS"
"""Environment variable of `tritonserver`: the names of the models that it loads, with commas. So an
entry point that is loaded again knows which components come back too."""

PATHS: Mapping[str, Mapping[str, Any]] = {
    "attention": {"decoder": "attention"},
    "ctc": {"decoder": "ctc"},
    "wfst": {"decoder": "wfst"},
    "streaming": {"mode": "streaming"},
    "two_pass": {"mode": "two_pass"},
}
"""Options of each path, by name: a value of `decoder` or of `mode`."""

RESCORERS: Mapping[str, str] = {
    "auto": "neural_rescorer",
    "neural": "neural_rescorer",
    "ngram": "rescorer",
}
"""Component of each value of the option `rescorer`; auto falls back to `rescorer`."""

_OPTIONS: tuple[Mapping[str, Any], ...] = (
    *PATHS.values(),
    {"rescore": True, "rescorer": "ngram"},
    {"rescore": True, "rescorer": "neural"},
    {"ctc_rescore": True},
    {"decoder": "ctc", "attention_rescore": True},
    {"decoder": "ctc", "punctuate": True},
    {"itn": True},
)
"""Together these need every component for every possible reason."""


def components_of(options: RecognitionOptions) -> Mapping[str, str]:
    """Return the components that a request needs, each with the option that needs it.

    Audio without speech calls fewer. `coverage` also calls the CTC model if it is loaded.
    """
    needs: dict[str, str] = {}
    if options.vad:
        needs["vad"] = "vad=true"
    if options.mode in ("streaming", "two_pass"):
        for model in ("ctc_streaming_encoder", "ctc_streaming_decoder"):
            needs[model] = f"mode={options.mode}"
    if options.mode != "streaming":
        kind = "attention" if options.decoder == "attention" else "ctc"
        for model in (f"{kind}_encoder", f"{kind}_decoder"):
            needs[model] = f"decoder={options.decoder}"
    return {**needs, **rescoring_components_of(options), **text_components_of(options)}


def text_components_of(options: RecognitionOptions) -> Mapping[str, str]:
    """Return the models that rewrite the text at the end, each with the option that needs it.

    In `two_pass` the punctuator is for utterances that Whisper has no time for.
    """
    needs: dict[str, str] = {}
    if options.punctuate and (options.decoder != "attention" or options.mode == "two_pass"):
        needs[PUNCTUATOR] = "punctuate=true"
    if options.itn:
        needs[INVERSE_NORMALIZER] = "itn=true"
    for model in post_models(options.post):
        needs.setdefault(model, f"post={model}")
    return needs


def rescoring_components_of(options: RecognitionOptions) -> Mapping[str, str]:
    """Return the components that score hypotheses again, each with the option that needs it.

    A rescorer that is auto counts as neural.
    """
    needs: dict[str, str] = {}
    if options.rescore:
        needs[RESCORERS[options.rescorer]] = "rescore=true"
    if options.ctc_rescore:
        if options.mode == "offline":  # a live stream has heard its audio before
            needs["ctc_encoder"] = "ctc_rescore=true"
        needs["ctc_decoder"] = "ctc_rescore=true"
    if options.attention_rescore:
        for model in ("attention_encoder", "attention_decoder"):
            needs[model] = "attention_rescore=true"
    if options.accuracy != "fast":
        return dict.fromkeys(needs, f"accuracy={options.accuracy}")
    return needs


def components_of_path(name: str) -> tuple[str, ...]:
    """Return the components of a path, by its name in `PATHS`."""
    return tuple(components_of(_parsed(PATHS[name])))


def needed_for(model: str) -> tuple[str, ...]:
    """Return the options that need a component; empty if no path calls it."""
    reasons = (components_of(_parsed(sent)).get(model) for sent in _OPTIONS)
    return tuple(dict.fromkeys(reason for reason in reasons if reason))


def missing(model: str) -> MissingModelError:
    """Return the error of a request that needs a component which the server lacks."""
    needed = " or ".join(needed_for(model))
    return MissingModelError(
        f"model {model} is not loaded on this server{needed and f', and {needed} needs it'}: "
        "name it in conch serve --models, or see in the server's log why it has ended",
        model,
    )


def missing_post(model: str) -> MissingModelError:
    """Return the error of a request whose option `post` names a model that the server lacks."""
    return MissingModelError(
        f"option 'post' names the model {model}, which is not loaded on this server: have it in a "
        "model repository, which conch serve --add-model-repository serves beside Conch's own",
        model,
    )


def _parsed(sent: Mapping[str, Any]) -> RecognitionOptions:
    return RecognitionOptions.parse(sent, live="mode" in sent)
