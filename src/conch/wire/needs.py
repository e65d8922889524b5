"""Which components a request needs: what a server for it loads, and what a missing one is for."""

from collections.abc import Mapping
from typing import Any

from conch.wire.options import RecognitionOptions

ENTRY_POINTS = ("speech", "speech_stream")
"""The BLS models, which call the components."""

PATHS: Mapping[str, Mapping[str, Any]] = {
    "attention": {"decoder": "attention"},
    "ctc": {"decoder": "ctc"},
    "wfst": {"decoder": "wfst"},
    "streaming": {"mode": "streaming"},
    "two_pass": {"mode": "two_pass"},
}
"""Names for the components of a path: values of the options `decoder` and `mode`."""

_OPTIONS: tuple[Mapping[str, Any], ...] = (
    *PATHS.values(),
    {"rescore": True},
    {"decoder": "ctc", "attention_rescore": True},
)
"""Between them they need every component, for every reason there is."""


def components_of(options: RecognitionOptions) -> Mapping[str, str]:
    """Return the components that a request must have, each with the option that makes it.

    Audio without speech calls fewer; `coverage` asks the CTC model too, where it is loaded.
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
    if options.attention_rescore:
        for model in ("attention_encoder", "attention_decoder"):
            needs[model] = "attention_rescore=true"
    if options.rescore:
        needs["rescorer"] = "rescore=true"
    return needs


def components_of_path(name: str) -> tuple[str, ...]:
    """Return the components of one of `PATHS`."""
    return tuple(components_of(_parsed(PATHS[name])))


def needed_for(model: str) -> tuple[str, ...]:
    """Return the options that need a component; none where no path calls it."""
    reasons = (components_of(_parsed(sent)).get(model) for sent in _OPTIONS)
    return tuple(dict.fromkeys(reason for reason in reasons if reason))


def _parsed(sent: Mapping[str, Any]) -> RecognitionOptions:
    return RecognitionOptions.parse(sent, live="mode" in sent)
