"""CTC: encoders and searches for segments and for live audio, and the shipped weights."""

from dataclasses import dataclass
from pathlib import Path

from conch.families.family import (
    Decoder,
    Family,
    FamilyHooks,
    ModelKind,
    Need,
    ScorerHook,
)
from conch.families.options import Rule, option
from conch.families.search import search_components

WEIGHTS = Path(__file__).parent / "weights"
"""Folder of the model and of its decoding graph."""


OFFLINE = ("ctc_encoder", "ctc_decoder")
LIVE = ("ctc_streaming_encoder", "ctc_streaming_decoder")


@dataclass(frozen=True, kw_only=True)
class CtcOptions:
    lm_fusion: bool = option(
        False, "the language model takes part in the search (shallow fusion)", decoders=("ctc",)
    )
    ctc_rescore: bool = option(
        False, "score the hypotheses again with the CTC model", decoders=("attention",)
    )
    ctc_weight: float | None = option(
        None,
        "weight of the CTC model's score, with ctc_rescore",
        low=0,
        high=10,
        otherwise="tuned for each decoder",
    )
    lattice: bool = option(
        False,
        "for each segment of a recording or a second pass, the texts near the best one as a graph "
        "in Kaldi's text form",
        decoders=("wfst",),
        is_of_final_text=True,
    )


_DEFAULTS = {"beam_size": 16, "rescore_margin": 8.0}

FAMILY = Family(
    name="ctc",
    title="CTC",
    components=(
        *search_components(OFFLINE, "CTC"),
        *search_components(LIVE, "CTC, live", is_stream=True),
    ),
    models=(
        ModelKind(
            name="ctc",
            title="CTC",
            components=(*OFFLINE, *LIVE),
            form="a folder of icefall, sherpa-onnx, WeNet, NeMo or wav2vec2",
            help="the same for a CTC model of icefall, sherpa-onnx, WeNet, NeMo or wav2vec2",
            check="conch.families.ctc.folder:check_ctc",
            networks="conch.families.ctc.folder:networks_of_ctc",
        ),
    ),
    decoders=(
        Decoder(
            name="ctc",
            components=OFFLINE,
            live=LIVE,
            recogniser="conch.families.ctc.recogniser:CTC",
            first_pass="conch.families.ctc.recogniser:CtcFirstPass",
            live_when={"lm_fusion": True},
            defaults=_DEFAULTS,
            presets={
                "balanced": {"lm_fusion": True},
                "best": {"lm_fusion": True, "attention_rescore": True},
            },
            # Of rescoring as of fusion: its lists have other spellings, hardly other words.
            weights={
                ("fusion",): {"lm": 0.8, "word_bonus": 1.5},
                ("ngram",): {"lm": 0.8, "word_bonus": 1.5},
                ("neural",): {"lm": 0.8, "word_bonus": 1.5},
                ("attention",): {"attention": 1.0},
                ("attention", "ngram"): {"lm": 0.8, "attention": 1.0, "word_bonus": 1.5},
                ("attention", "neural"): {"lm": 0.8, "attention": 1.0, "word_bonus": 1.5},
            },
        ),
        Decoder(
            name="wfst",
            components=OFFLINE,
            live=LIVE,
            recogniser="conch.families.ctc.recogniser:CTC",
            first_pass="conch.families.ctc.recogniser:CtcFirstPass",
            has_language_model=True,
            defaults=_DEFAULTS,
            presets={
                "balanced": {"rescore": True},
                "best": {"rescore": True, "attention_rescore": True},
            },
            weights={
                ("ngram",): {"lm": 1.0, "word_bonus": -1.0},
                ("neural",): {"lm": 1.2, "word_bonus": -1.5},
                ("attention",): {"attention": 3.0, "word_bonus": -1.5},
                ("attention", "ngram"): {"lm": 1.6, "attention": 2.75, "word_bonus": -0.5},
                ("attention", "neural"): {"lm": 1.2, "attention": 2.5, "word_bonus": -1.0},
            },
        ),
    ),
    options=CtcOptions,
    rules=(
        Rule(
            {"lattice": True, "mode": "streaming"},
            "option 'lattice' goes with recordings and mode two_pass, not streaming: there the "
            "words are final before an utterance ends",
        ),
        Rule(
            {"rescore": True, "decoder": "ctc", "lm_fusion": True},
            "option 'rescore' is for texts that the language model has not seen yet; with "
            "lm_fusion it has",
        ),
        Rule(
            {"rescore": True, "decoder": "wfst", "mode": "streaming"},
            "option 'rescore' with decoder wfst goes with mode two_pass, not streaming: there the "
            "words are stable before an utterance can be rescored",
        ),
    ),
    needs=(
        Need(
            components=OFFLINE, when={"ctc_rescore": True, "mode": "offline"}, purpose="rescoring"
        ),
        # A live stream has heard its audio before.
        Need(components=("ctc_decoder",), when={"ctc_rescore": True}, purpose="rescoring"),
    ),
    warm_ups=({"decoder": "ctc"}, {"mode": "streaming"}),
    hooks=FamilyHooks(
        second_opinion="wfst",
        score_texts=(
            ScorerHook(
                function="conch.families.ctc.recogniser:scores",
                when={"ctc_rescore": True},
                score="ctc_score",
            ),
        ),
    ),
)
