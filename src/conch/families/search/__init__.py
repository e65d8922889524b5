"""Families whose search reads an encoder's frames, CTC and transducers: shared tensors, rules."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from conch.families.family import ComponentInfo, TensorInfo, WeightsPackage
from conch.families.options import GIVEN, Rule

DEFAULT_WHEN = {"task": "transcribe", "languages": "", "prompt": ""}
"""The requests that a model of the user's answers where they choose no decoder."""

PARAMETERS: dict[str, type] = {
    "decoder": str,
    "beam_size": int,
    "nbest": int,
    "lm_fusion": bool,
    "lm_weight": str,
    "word_bonus": str,
    "hotword_weight": str,
    "hotwords": str,
    "skip_foreign": bool,
    "language": str,
}
"""Numbers are texts: a call inside Triton carries no fractions."""
LIVE_PARAMETERS: dict[str, type] = {**PARAMETERS, "is_over": bool}
WORD_TIMES = tuple(
    TensorInfo(name, "FP32", (-1,), "seconds from the segment's start")
    for name in ("word_starts", "word_ends")
)


def hypotheses(
    scores: str, am_scores: str, lm_scores: str, word_confidences: str
) -> tuple[TensorInfo, ...]:
    """Return the outputs of a decoder of segments; the arguments are meanings of tensors."""
    return (
        TensorInfo(
            "hypotheses",
            "BYTES",
            (-1,),
            "n-best texts, best first; no two are equal, one may be empty",
        ),
        TensorInfo("scores", "FP32", (-1,), scores),
        TensorInfo("am_scores", "FP32", (-1,), am_scores),
        TensorInfo("lm_scores", "FP32", (-1,), lm_scores),
        TensorInfo("num_words", "INT32", (-1,), "words of each text"),
        TensorInfo("words", "BYTES", (-1,), "words of all texts, one text after the other"),
        *WORD_TIMES,
        TensorInfo("word_confidences", "FP32", (-1,), word_confidences),
    )


def live_hypotheses(name: str, outputs: tuple[TensorInfo, ...]) -> tuple[TensorInfo, ...]:
    """Return the outputs of a decoder of live audio: those of the decoder `name`, and `stable`."""
    first, *others = outputs
    return (
        replace(first, meaning=f"as `{name}`, for the utterance so far"),
        *(replace(item, meaning=f"as `{name}`") for item in others),
        TensorInfo(
            "stable", "BYTES", (1,), "the beginning of the best text that no later frame changes"
        ),
    )


def frames(name: str, *, is_live: bool = False) -> tuple[TensorInfo, ...]:
    """Return the inputs of a decoder: an encoder's output `name` and its length."""
    meaning = lens = "as the encoder returned it"
    if is_live:
        meaning, lens = "the next frames, or none", "number of frames; with 0 the width is free"
    return (
        TensorInfo(name, "FP32", (-1, -1), meaning),
        TensorInfo(f"{name}_lens", "INT32", (1,), lens),
    )


SEGMENT = TensorInfo("waveform", "FP32", (-1,), "one segment, at most 40 s")
ENDS_TURN = "ends_turn"
"""Output of a decoder of live audio whose model says when the speaker has finished."""
BEHIND = TensorInfo("behind_samples", "INT32", (1,), "samples whose frames come with a later chunk")
PIECE = TensorInfo(
    "waveform",
    "FP32",
    (-1,),
    "the next samples, any number, even none; `speech` omits silence between utterances",
)


def search_components(
    names: tuple[str, ...],
    title: str,
    what: str,
    encoded: tuple[TensorInfo, ...],
    live_encoded: tuple[TensorInfo, ...],
    texts: tuple[TensorInfo, ...],
    package: WeightsPackage | None = None,
    parameters: Mapping[str, type] = MappingProxyType({}),
    encoder_parameters: Mapping[str, type] = MappingProxyType({}),
) -> tuple[ComponentInfo, ...]:
    """Return encoder and decoder of segments, and those of live audio, in the order of `names`.

    `what` the frames are of is in their roles. `encoded` and `live_encoded` are the outputs of the
    encoders, frames first, `texts` those of the decoder, and `parameters` its own ones. Both
    encoders take `encoder_parameters`.
    """
    frames_name = encoded[0].name
    live_title = f"{title}, live"
    return (
        ComponentInfo(
            name=names[0],
            role=f"waveform to {what}",
            title=title,
            step="encode",
            inputs=(SEGMENT,),
            outputs=encoded,
            parameters=encoder_parameters,
            package=package,
        ),
        ComponentInfo(
            name=names[1],
            role=f"{what} to text",
            title=title,
            step="decode",
            inputs=frames(frames_name),
            outputs=texts,
            parameters={**PARAMETERS, **parameters},
            package=package,
        ),
        ComponentInfo(
            name=names[2],
            role=f"live audio to {what}",
            title=live_title,
            step="encode",
            inputs=(PIECE,),
            outputs=(*live_encoded, BEHIND),
            parameters=encoder_parameters,
            is_stream=True,
            package=package,
        ),
        ComponentInfo(
            name=names[3],
            role=f"live {what} to the text so far",
            title=live_title,
            step="decode",
            inputs=frames(frames_name, is_live=True),
            outputs=live_hypotheses(names[1], texts),
            parameters={**LIVE_PARAMETERS, **parameters},
            is_stream=True,
            package=package,
        ),
    )


def rescoring_takes_a_weight(decoder: str) -> Rule:
    """Return the rule of a decoder for models whose weights nobody has tuned."""
    return Rule(
        {"rescore": True, "decoder": decoder, "lm_weight": None},
        f"option 'rescore' with decoder {decoder} takes lm_weight too: no weight is tuned for your "
        "model",
    )


def takes_no_names(decoder: str, why: str) -> tuple[Rule, ...]:
    """Return the rules of a decoder whose words no request can prefer."""
    return tuple(
        Rule(
            {option: GIVEN, "decoder": decoder},
            f"option '{option}' does not go with decoder {decoder}, {why}",
        )
        for option in ("names", "hotwords")
    )


def live_takes_the_vad(decoder: str) -> Rule:
    """Return the rule of a decoder whose live encoder does not find speech."""
    return Rule(
        {"vad": False, "decoder": decoder, "mode": ("streaming", "two_pass")},
        f"option 'vad' takes true for live audio with decoder {decoder}, which does not say where "
        "speech is",
    )
