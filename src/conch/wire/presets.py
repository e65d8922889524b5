"""The presets of the option `accuracy`: what is spent on fewer errors with each decoder."""

from collections.abc import Mapping
from typing import Any

PRESETS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("balanced", "attention"): {
        "rescore": True,
        "ctc_rescore": True,
        "beam_size": 8,
        "rescore_margin": 0.3,
    },
    ("best", "attention"): {"rescore": True, "ctc_rescore": True},
    ("balanced", "wfst"): {"rescore": True},
    ("best", "wfst"): {"rescore": True, "attention_rescore": True},
    ("balanced", "ctc"): {"lm_fusion": True},
    ("best", "ctc"): {"lm_fusion": True, "attention_rescore": True},
}
"""Options that a preset sets, by `accuracy` and `decoder`. `fast` sets none."""


def preset(sent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options that a preset sets.

    Args:
        sent: Options of a request, among them `decoder`.
    """
    found = PRESETS.get((sent.get("accuracy", "fast"), sent["decoder"]), {})
    if sent.get("rescore"):  # it does not go with fusion
        found = {name: value for name, value in found.items() if name != "lm_fusion"}
    return found
